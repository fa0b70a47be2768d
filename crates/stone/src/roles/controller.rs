//! The controller: gathers loaders and handlers, begins, ends, and judges the sum.

use core::time::Duration;
use std::net::{TcpListener, TcpStream};

use super::helper::{Part, help};
use super::wire::{Line, Link, Role, unpack};
use crate::audit::Limits;
use crate::clock;
use crate::drive::Control;
use crate::error::StoneError;
use crate::plan::Plan;
use crate::report::{Report, merge_reports};
use crate::run::Run;

/// Requests in flight may still reach the handlers when the last loader is done.
const AFTER: Duration = Duration::from_millis(300);

/// Runs a plan to its end; gives the whole and the parts, loaders first.
///
/// # Errors
///
/// [`StoneError`] if the address is taken, helpers do not come in time, or one of them fails: its own words.
pub fn control(
    plan: &Plan,
    to_run: &(dyn Fn(&Part) -> Result<Run, StoneError> + Sync),
    waiting: &mut dyn FnMut(core::net::SocketAddr),
) -> Result<(Report, Vec<Report>), StoneError> {
    let part = Part { workload: plan.workload.clone(), options: plan.arguments()? };
    let limits = to_run(&part)?.limits; // a mistake in the plan shows before anybody is asked to come
    let listener = TcpListener::bind(plan.listen)
        .map_err(|error| StoneError::socket(format!("tcp {}", plan.listen), &error))?;
    let address = listener.local_addr().map_err(|error| StoneError::socket("tcp", &error))?;
    if !plan.local {
        waiting(address);
        return gather(plan, &part, &listener, &limits);
    }
    std::thread::scope(|scope| {
        let roles = [(Role::Handler, plan.handlers), (Role::Loader, plan.loaders)];
        for role in roles.into_iter().flat_map(|(role, count)| (0..count).map(move |_| role)) {
            scope.spawn(move || {
                let control = Control::default();
                // What went wrong is told to the controller, which tells the user.
                let _ = help(&address.to_string(), role, &control, to_run);
            });
        }
        gather(plan, &part, &listener, &limits)
    })
}

fn gather(
    plan: &Plan,
    part: &Part,
    listener: &TcpListener,
    limits: &Limits,
) -> Result<(Report, Vec<Report>), StoneError> {
    let (mut loaders, mut handlers) = (Vec::new(), Vec::new());
    let from = clock::now();
    let _ = listener.set_nonblocking(true);
    while loaders.len() < usize::from(plan.loaders) || handlers.len() < usize::from(plan.handlers) {
        let Some(stream) = accept(listener) else {
            if clock::now() - from > Duration::from_secs(plan.wait) {
                return Err(StoneError::Target(format!(
                    "after {} s only {} of {} loaders and {} of {} handlers have come",
                    plan.wait,
                    loaders.len(),
                    plan.loaders,
                    handlers.len(),
                    plan.handlers
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let mut link = Link::new(stream);
        let Ok(Line::Hello { role }) = link.hear() else { continue }; // a stranger
        let (links, of) = match role {
            Role::Loader => (&mut loaders, plan.loaders),
            Role::Handler => (&mut handlers, plan.handlers),
        };
        let number = u16::try_from(links.len()).unwrap_or(u16::MAX);
        if number < of {
            let (workload, options) = (part.workload.clone(), part.options.clone());
            link.tell(&Line::Part { workload, options, number, of })?;
            links.push(link);
        }
    }
    for link in handlers.iter_mut().chain(&mut loaders) {
        let _ = link.hear()?; // Ready
    }
    for link in &mut loaders {
        link.tell(&Line::Begin)?;
    }
    let mut parts = Vec::new();
    for link in &mut loaders {
        parts.push(found(link)?);
    }
    std::thread::sleep(AFTER);
    for link in &mut handlers {
        link.tell(&Line::End)?;
    }
    for link in &mut handlers {
        parts.push(found(link)?);
    }
    Ok((merge_reports(&parts, limits), parts))
}

fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let (stream, _) = listener.accept().ok()?;
    stream.set_nonblocking(false).ok()?;
    Some(stream)
}

fn found(link: &mut Link) -> Result<Report, StoneError> {
    loop {
        if let Line::Found { report, latencies } = link.hear()? {
            let mut report = *report;
            report.times = unpack(&latencies);
            return Ok(report);
        }
    }
}
