//! Host names of targets to addresses, off the data path: RFC 3263, by the system's `/etc/hosts` and name servers.

use crate::serve::shard::{Asked, Question, Shard};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use tandem_node::Command;
use tandem_resolve::Resolver;
use tandem_shard::{Commands, Events, Refused};
use tandem_telemetry::Registry;
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep;

/// Questions at a time; a further one is answered with no address, since a resolver this slow would not help it.
const QUESTIONS_MAX: usize = 64;

type QuestionEvents = Events<<Shard as tandem_shard::Machine>::Event>;

/// Answers the shards' questions for good. `asked` is notified when there may be some.
pub(crate) async fn answer(
    mut events: QuestionEvents,
    asked: Arc<Notify>,
    commands: Commands<Command>,
    registry: Arc<Registry>,
    servers: Vec<SocketAddr>,
    seed: u64,
) {
    let resolver = match Resolver::new(&servers, seed) {
        Ok(resolver) => Some(Arc::new(resolver)),
        Err(error) => {
            tracing::warn!(%error, "host names can't be resolved: see /etc/resolv.conf; calls to addresses go on");
            None
        }
    };
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
        while let Some((shard, asked)) = events.poll() {
            let question = match asked {
                Asked::Name(question) => question,
                Asked::Probed(answer) => {
                    // A lost answer is a lost datagram: the next probe tells.
                    let _ = commands.send(0, Command::Probed(answer));
                    continue;
                }
            };
            match Arc::clone(&permits).try_acquire_owned() {
                Ok(permit) => {
                    let answers = answers.clone();
                    let resolver = resolver.clone();
                    tokio::spawn(async move {
                        let addresses = look_up(resolver.as_deref(), &question).await;
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

async fn look_up(resolver: Option<&Resolver>, question: &Question) -> Box<[SocketAddr]> {
    match (resolver, std::str::from_utf8(&question.host)) {
        (Some(resolver), Ok(host)) => {
            resolver.addresses(host, question.port, question.transport).await.into()
        }
        (None, _) | (_, Err(_)) => Box::new([]),
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
