//! A loader or handler: hears its part, plays it, tells what it found.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::net::TcpStream;

use super::wire::{Line, Link, Role, pack};
use crate::clock;
use crate::drive::Control;
use crate::error::StoneError;
use crate::run::{Roles, Run};

/// The part of a load that one helper plays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The workload's name.
    pub workload: String,
    /// Options as on the command line.
    pub options: Vec<String>,
}

/// Joins the controller at `address` and does what it says. `to_run` turns options into a run.
///
/// # Errors
///
/// [`StoneError`] of the run, or if the controller cannot be reached or leaves.
pub fn help(
    address: &str,
    role: Role,
    control: &Control,
    to_run: &dyn Fn(&Part) -> Result<Run, StoneError>,
) -> Result<(), StoneError> {
    let stream = connect(address)?;
    let mut link = Link::new(stream);
    link.tell(&Line::Hello { role })?;
    let Line::Part { workload, options, number, of } = link.hear()? else {
        return Err(StoneError::Target(format!("the controller at {address} speaks otherwise")));
    };
    let done =
        to_run(&Part { workload, options }).and_then(|run| play(run, role, number, of, control, &mut link));
    if let Err(error) = &done {
        let _ = link.tell(&Line::Failed { why: error.to_string() }); // it may be gone already
    }
    done
}

/// The controller may come up a little later than its helpers.
fn connect(address: &str) -> Result<TcpStream, StoneError> {
    let from = clock::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return Ok(stream),
            Err(error) if clock::now() - from > Duration::from_secs(10) => {
                return Err(StoneError::socket(format!("controller {address}"), &error));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn play(
    mut run: Run,
    role: Role,
    number: u16,
    of: u16,
    control: &Control,
    link: &mut Link,
) -> Result<(), StoneError> {
    run.handler = number;
    run.load.seed = run.load.seed.wrapping_add(u64::from(number) << 32);
    // A fixed port is the first helper's; the others take the next ones.
    let next_port = |addr: core::net::SocketAddr| {
        let port = if addr.port() == 0 { 0 } else { addr.port() + number * run.threads };
        core::net::SocketAddr::new(addr.ip(), port)
    };
    run.caller = run.caller.map(next_port);
    run.callees.iter_mut().for_each(|callee| *callee = next_port(*callee));
    match role {
        Role::Loader => {
            run.roles = Roles::Caller;
            run.register_first = Some(false);
            run.load.ramp.from /= f64::from(of);
            run.load.ramp.to /= f64::from(of);
        }
        Role::Handler => {
            run.roles = Roles::Handler;
            run.load.users = run.load.users.share(usize::from(number), usize::from(of));
        }
    }
    let threads = usize::from(run.threads.max(1));
    let prepared = run.prepare()?;
    if role == Role::Loader {
        link.tell(&Line::Ready)?;
        let _ = link.hear()?; // Begin
        let report = prepared.run(control, &mut |_| {})?;
        let latencies = pack(&report.times);
        return link.tell(&Line::Found { report: Box::new(report), latencies });
    }
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| prepared.run(control, &mut |_| {}));
        while control.ready.load(Ordering::Acquire) < threads && !running.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let told = if running.is_finished() {
            Ok(())
        } else {
            link.tell(&Line::Ready).and_then(|()| link.hear().map(drop))
        };
        control.stop.store(true, Ordering::Relaxed);
        let report = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        told.and(report)
    })?;
    let latencies = pack(&report.times);
    link.tell(&Line::Found { report: Box::new(report), latencies })
}
