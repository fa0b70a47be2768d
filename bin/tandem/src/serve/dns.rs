//! Host names of targets to addresses, off the data path.
//!
//! By the system's resolver, so that `/etc/hosts` and its cache count. Left out: NAPTR and SRV (RFC 3263 §4), which
//! the system's resolver does not ask for; a name without a port means the transport's usual one.

use crate::serve::shard::{Question, Shard};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use tandem_node::Command;
use tandem_shard::{Commands, Events, Refused};
use tandem_telemetry::Registry;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

/// Questions at a time; a further one is answered with no address, since a resolver this slow would not help it.
const QUESTIONS_MAX: usize = 64;
/// How long an answer may take, well below the time after which a caller gives up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

type QuestionEvents = Events<<Shard as tandem_shard::Machine>::Event>;

/// Answers the shards' questions for good. `asked` is notified when there may be some.
pub(crate) async fn answer(
    mut events: QuestionEvents,
    asked: Arc<Notify>,
    commands: Commands<Command>,
    registry: Arc<Registry>,
) {
    let count = |outcome| {
        registry.counter("tandem_resolve_total", "Host names looked up, by outcome.", &[("outcome", outcome)])
    };
    let (found, failed, refused) = (count("found"), count("failed"), count("refused"));
    let (answers, mut answered) = tokio::sync::mpsc::channel(QUESTIONS_MAX);
    let permits = Arc::new(Semaphore::new(QUESTIONS_MAX));
    loop {
        tokio::select! {
            () = asked.notified() => {}
            Some((shard, ticket, addresses)) = answered.recv() => {
                let addresses: Box<[SocketAddr]> = addresses;
                if addresses.is_empty() { failed.add(1) } else { found.add(1) }
                tell(&commands, shard, ticket, addresses).await;
            }
        }
        while let Some((shard, question)) = events.poll() {
            match Arc::clone(&permits).try_acquire_owned() {
                Ok(permit) => {
                    let answers = answers.clone();
                    tokio::spawn(async move {
                        let addresses = look_up(&question).await;
                        // The receiver lives as long as the process.
                        let _ = answers.send((shard, question.ticket, addresses)).await;
                        drop(permit);
                    });
                }
                Err(_) => {
                    refused.add(1);
                    tell(&commands, shard, question.ticket, Box::new([])).await;
                }
            }
        }
    }
}

async fn look_up(question: &Question) -> Box<[SocketAddr]> {
    let Ok(host) = std::str::from_utf8(&question.host) else { return Box::new([]) };
    let port = question.port.unwrap_or(question.transport.default_port());
    match timeout(PATIENCE, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(addresses)) => addresses.take(ADDRESSES_MAX).collect(),
        Ok(Err(_)) | Err(_) => Box::new([]),
    }
}

/// A shard that is behind gets its answer a little later; one that is gone needs none.
async fn tell(commands: &Commands<Command>, shard: usize, ticket: u64, addresses: Box<[SocketAddr]>) {
    let mut command = Command::Resolved { ticket, addresses };
    while let Err(Refused::Full(back)) = commands.send(shard, command) {
        command = back;
        sleep(Duration::from_millis(1)).await;
    }
}
