//! `stone forwarder` and `stone reflector`.

use core::net::SocketAddr;
use core::sync::atomic::AtomicBool;
use core::time::Duration;

use clap::Args;

use super::{Done, args, stop};
use crate::bare::{Pair, Passed, forward, reflect};
use crate::clock;
use crate::error::StoneError;

/// Options of the forwarder.
#[derive(Args, Clone, Debug)]
pub struct ForwarderArgs {
    /// `LISTEN=CALLEE`: what comes to LISTEN goes to CALLEE, and back from there to the last caller. May be repeated.
    #[arg(long, required = true, value_name = "ADDR=ADDR", value_parser = pair)]
    pair: Vec<Pair>,
    /// Stop after this time.
    #[arg(long = "for", value_parser = args::seconds, value_name = "TIME")]
    length: Option<Duration>,
}

/// Options of the reflector.
#[derive(Args, Clone, Debug)]
pub struct ReflectorArgs {
    /// Address to listen on. May be repeated.
    #[arg(long, required = true, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// Stop after this time.
    #[arg(long = "for", value_parser = args::seconds, value_name = "TIME")]
    length: Option<Duration>,
}

fn pair(text: &str) -> Result<Pair, String> {
    let parts =
        text.split_once('=').and_then(|(listen, callee)| Some((listen.parse().ok()?, callee.parse().ok()?)));
    let (listen, callee) = parts.ok_or("two addresses, as in 127.0.0.1:5060=127.0.0.1:5070")?;
    Ok(Pair { listen, callee })
}

pub(super) fn forwarder(args: &ForwarderArgs) -> Done {
    until_stopped(args.length, |stop| forward(&args.pair, stop))
}

pub(super) fn reflector(args: &ReflectorArgs) -> Done {
    until_stopped(args.length, |stop| reflect(&args.listen, stop))
}

fn until_stopped(
    length: Option<Duration>,
    pass: impl FnOnce(&AtomicBool) -> Result<Passed, StoneError>,
) -> Done {
    static STOP: AtomicBool = AtomicBool::new(false);
    stop::on_signal(&STOP, length);
    let passed = pass(&STOP)?;
    let cpu = clock::process_cpu();
    println!(
        "received {}, sent {}, dropped {}, CPU {:.3} s",
        passed.received,
        passed.sent,
        passed.dropped,
        cpu.as_secs_f64()
    );
    Ok(true)
}
