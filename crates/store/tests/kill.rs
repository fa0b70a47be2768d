//! `kill -9` at any moment: what was acknowledged under `commit` is there afterwards.
//!
//! The test runs itself again as a child that registers, commits and prints each answered ticket; the parent kills it
//! after a random number of answers, loads the file and looks for every one it had read.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{Folder, fixed_clock, load, locations, open, put, quick, sockets};
use tandem_base::Rng;
use tandem_store::Options;

const CHILD: &str = "TANDEM_STORE_KILL_CHILD";

#[test]
fn what_was_acknowledged_under_commit_survives_kill_9() {
    if let Some(path) = std::env::var_os(CHILD) {
        return child(path.as_ref());
    }
    let folder = Folder::new();
    let mut rng = Rng::from_seed(0x51f3);
    let mut acknowledged = Vec::new();
    for round in 0..20 {
        let answers = rng.next_u64() % 300;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_acknowledged_under_commit_survives_kill_9", "--nocapture"])
            .env(CHILD, folder.db())
            .env("TANDEM_STORE_KILL_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut ours = lines.filter_map(|line| line.strip_prefix("acknowledged ").map(str::to_owned));
        acknowledged.extend(ours.by_ref().take(usize::try_from(answers).unwrap()));
        child.kill().unwrap();
        // What was in the pipe when it died was acknowledged too.
        acknowledged.extend(ours);
        child.wait().unwrap();
        let (loaded, report) = load(&folder.db());
        assert_eq!(report.bad, 0);
        let lost = acknowledged.iter().find(|&a| !loaded.contains(a));
        assert_eq!(lost, None, "round {round}: {} acknowledged, {} found", acknowledged.len(), loaded.len());
    }
    assert!(acknowledged.len() > 500, "the child got nowhere: {}", acknowledged.len());
}

/// Registers new addresses for ever, a few hundred tickets ahead of the answers.
fn child(path: &std::path::Path) {
    let round = std::env::var("TANDEM_STORE_KILL_ROUND").unwrap();
    let store = open(path, Options::default()).unwrap();
    let locations = locations();
    tandem_store::run(store.load_locations(&locations, &sockets(), &fixed_clock())).unwrap().unwrap();
    let (sent, answered) = std::sync::mpsc::sync_channel::<()>(300);
    let answer = move |n: u64, ok: bool| {
        assert!(ok);
        let mut out = std::io::stdout().lock();
        // The line goes out in one write, so that the parent never reads a part of it.
        out.write_all(format!("acknowledged r{round}u{n}@h sip:a@h\n").as_bytes()).unwrap();
        out.flush().unwrap();
        answered.recv().unwrap();
    };
    let writer =
        store.writer(Arc::clone(&locations), sockets(), fixed_clock(), quick(), answer, |_| ()).unwrap();
    let handle = writer.handle();
    let round = std::env::var("TANDEM_STORE_KILL_ROUND").unwrap();
    for n in 0_u64.. {
        let aor = format!("r{round}u{n}@h");
        put(&locations, &aor, &["sip:a@h"]);
        sent.send(()).unwrap();
        handle.commit(aor.as_bytes(), n).unwrap();
    }
}
