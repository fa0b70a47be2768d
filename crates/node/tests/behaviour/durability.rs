//! When a REGISTER is answered, and what is asked of the store.

use crate::common::{BOB, Bench, header, register, statuses};
use tandem_node::{Command, Durability, Event};
use tandem_sip::HeaderName;

fn bench(durability: Durability) -> Bench {
    Bench::open(|config| config.durability = durability)
}

fn bob() -> String {
    register("bob", "<sip:bob@127.0.0.1:5064>").text()
}

fn ticket(bench: &mut Bench) -> u64 {
    match bench.event() {
        Some(Event::Persist { ticket, aor }) => {
            assert_eq!(&aor[..], b"bob@localhost");
            ticket
        }
        other => panic!("{other:?}"),
    }
}

fn persisted(ticket: u64, ok: bool) -> Command {
    Command::Persisted { tickets: [ticket].into(), ok }
}

#[test]
fn in_memory_it_is_answered_at_once_and_nothing_is_stored() {
    let mut bench = bench(Durability::Memory);
    assert_eq!(statuses(&bench.send(BOB, &bob()), BOB), [200]);
    assert_eq!(bench.event(), None);
}

#[test]
fn async_is_answered_at_once_and_the_store_follows() {
    let mut bench = bench(Durability::Async);
    assert_eq!(statuses(&bench.send(BOB, &bob()), BOB), [200]);
    let ticket = ticket(&mut bench);
    assert!(bench.command(&persisted(ticket, false)).is_empty());
    bench.drain();
}

#[test]
fn commit_is_answered_when_the_store_has_it_and_no_repetition_is_stored_twice() {
    let mut bench = bench(Durability::Commit);
    assert!(bench.send(BOB, &bob()).is_empty());
    assert!(bench.send(BOB, &bob()).is_empty(), "a retransmission");
    let ticket = ticket(&mut bench);
    assert_eq!(bench.event(), None);
    let sent = bench.command(&persisted(ticket, true));
    assert_eq!(statuses(&sent, BOB), [200]);
    assert!(
        header(&sent[0].1, HeaderName::Contact).starts_with("<sip:bob@127.0.0.1:5064>;expires="),
        "{sent:?}"
    );
    assert_eq!(statuses(&bench.send(BOB, &bob()), BOB), [200], "a late retransmission");
    assert!(bench.command(&persisted(ticket, true)).is_empty(), "a ticket counts once");
    bench.drain();
}

#[test]
fn a_store_that_fails_under_commit_is_told_as_503_with_retry_after() {
    let mut bench = bench(Durability::Commit);
    bench.send(BOB, &bob());
    let ticket = ticket(&mut bench);
    let sent = bench.command(&persisted(ticket, false));
    assert_eq!(statuses(&sent, BOB), [503]);
    assert!(!header(&sent[0].1, HeaderName::RetryAfter).is_empty(), "{sent:?}");
}

#[test]
fn a_full_queue_to_the_store_refuses_before_anything_changes() {
    for durability in [Durability::Async, Durability::Commit] {
        let mut bench = Bench::open(|config| {
            config.durability = durability;
            config.persist_in_flight_max = 1;
        });
        bench.send(BOB, &bob());
        let sent = bench.send(BOB, &register("alice", "<sip:alice@127.0.0.1:5062>").text());
        assert_eq!(statuses(&sent, BOB), [503], "{durability:?}");
        assert!(!header(&sent[0].1, HeaderName::RetryAfter).is_empty());
        assert!(bench.contacts("alice").is_empty());
        let ticket = ticket(&mut bench);
        bench.command(&persisted(ticket, true));
        let again = register("alice", "<sip:alice@127.0.0.1:5062>").cseq(2).text();
        let told = statuses(&bench.send(BOB, &again), BOB);
        assert_eq!(told, if durability == Durability::Async { vec![200] } else { vec![] }, "room again");
        assert!(matches!(bench.event(), Some(Event::Persist { .. })));
    }
}

#[test]
fn a_fetch_and_a_refusal_ask_nothing_of_the_store() {
    let mut bench = bench(Durability::Commit);
    assert_eq!(statuses(&bench.send(BOB, &register("bob", "").text()), BOB), [200]);
    let brief = register("bob", "<sip:bob@127.0.0.1:5064>;expires=1").text();
    assert_eq!(statuses(&bench.send(BOB, &brief), BOB), [423]);
    assert_eq!(bench.event(), None);
}
