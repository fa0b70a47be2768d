//! The two ends of the control socket against each other, and the node's end against what is no request.

use crate::control::client::{AskError, Client};
use crate::control::protocol::{Code, Failure, Outcome, Page, REQUEST_BYTES_MAX, Request};
use crate::control::server::{Control, ControlSocket};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Answers with what it was asked; a list has three pages.
struct Echo;

impl Control for Echo {
    async fn control(&self, request: Request) -> Outcome {
        if let Request::UsersDel { user } = request {
            return Err(Failure::new(Code::NotFound, format!("there is no {user}")));
        }
        if let Request::UsersList { after } = request {
            let page: u32 = after.map_or(0, |after| after.parse().expect("our own cursor"));
            let next = (page < 2).then(|| (page + 1).to_string());
            return Ok(json!(Page { entries: vec![page], next }));
        }
        Ok(json!(request.name()))
    }
}

/// A served socket in a directory of its own, which goes with it.
struct Served {
    runtime: Option<tokio::runtime::Runtime>,
    directory: PathBuf,
    path: PathBuf,
}

impl Served {
    fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tandem-control-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a fresh directory");
        let path = directory.join("tandem.sock");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let socket = runtime.block_on(ControlSocket::bind(&path)).expect("a fresh socket");
        runtime.spawn(socket.serve(Arc::new(Echo)));
        Self { runtime: Some(runtime), directory, path }
    }

    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.path).expect("a listening node");
        // The node may hang up before it has read all of it.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = BufReader::new(stream).read_to_end(&mut answer);
        String::from_utf8(answer).expect("the answer is text")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.runtime.take();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn a_request_is_answered_and_a_refusal_keeps_its_code() {
    let served = Served::start();
    let mut client = Client::connect(&served.path).expect("a listening node");
    assert_eq!(client.ask(&Request::Status {}).expect("an answer"), json!("status"));
    match client.ask(&Request::UsersDel { user: "eve".to_owned() }) {
        Err(AskError::Refused(failure)) => {
            assert_eq!(failure, Failure::new(Code::NotFound, "there is no eve"));
        }
        other => panic!("{other:?}"),
    }
    let mut all = Vec::new();
    client
        .pages(|after| Request::UsersList { after }, |page: Vec<u32>| all.extend(page))
        .expect("three pages");
    assert_eq!(all, [0, 1, 2]);
}

#[test]
fn garbage_is_refused_and_the_connection_goes_on() {
    let served = Served::start();
    let garbage: &[&[u8]] = &[
        b"\n",
        b"status\n",
        b"{}\n",
        b"{\"op\":\"format-disk\"}\n",
        b"{\"op\":\"status\",\"extra\":1}\n",
        b"{\"op\":\"users-del\"}\n",
        b"{\"op\":\"users-del\",\"user\":7}\n",
        b"[[[[[[[[\n",
        b"\xff\xfe\x00\n",
        &[b"[".repeat(5_000), b"\n".to_vec()].concat(),
    ];
    for line in garbage {
        let answers = served.raw(&[line, b"{\"op\":\"status\"}\n".as_slice()].concat());
        let answers: Vec<&str> = answers.lines().collect();
        assert_eq!(answers.len(), 2, "{line:?} got {answers:?}");
        assert!(answers[0].starts_with(r#"{"error":{"code":"malformed","#), "{line:?} got {answers:?}");
        assert_eq!(answers[1], r#"{"ok":"status"}"#);
    }
}

#[test]
fn a_line_that_is_too_long_or_cut_off_ends_the_connection_with_a_reason() {
    let served = Served::start();
    let long = served.raw(&vec![b'a'; REQUEST_BYTES_MAX + 10_000]);
    assert!(long.starts_with(r#"{"error":{"code":"malformed","message":"the line is longer"#), "{long}");
    assert_eq!(long.lines().count(), 1);
    let cut = served.raw(b"{\"op\":\"shutdown\"}");
    assert_eq!(cut.trim_end(), r#"{"error":{"code":"malformed","message":"the line does not end"}}"#);
}

#[test]
fn many_open_connections_do_not_keep_others_out_for_good() {
    let served = Served::start();
    let held: Vec<UnixStream> = (0..40).filter_map(|_| UnixStream::connect(&served.path).ok()).collect();
    drop(held);
    let mut client = Client::connect(&served.path).expect("a listening node");
    assert_eq!(client.ask(&Request::Metrics {}).expect("an answer"), json!("metrics"));
}

#[test]
fn the_socket_is_closed_to_others_and_goes_with_the_node() {
    let served = Served::start();
    let mode = std::fs::metadata(&served.path).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let path = served.path.clone();
    let mut served = served;
    served.runtime.take();
    assert!(!path.exists());
}

#[test]
fn a_stale_socket_is_replaced_but_a_living_one_and_a_file_are_not() {
    let served = Served::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let bind = |path: &Path| runtime.block_on(ControlSocket::bind(path));
    let living = bind(&served.path).expect_err("the other node lives").to_string();
    assert!(living.contains("another node listens"), "{living}");
    let stale = served.directory.join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("a socket"));
    assert!(stale.exists());
    bind(&stale).expect("a stale socket is replaced");
    let file = served.directory.join("file");
    std::fs::write(&file, "kept").expect("a file");
    let refused = bind(&file).expect_err("a file is kept").to_string();
    assert!(refused.contains("no socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "kept");
}

#[test]
fn an_answer_that_breaks_off_is_told_as_such() {
    let directory = std::env::temp_dir().join(format!("tandem-broken-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a fresh directory");
    let path = directory.join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let node = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        BufReader::new(&mut stream).read_line(&mut String::new()).expect("a request");
        stream.write_all(b"{\"ok\":").expect("half an answer");
    });
    let error = Client::connect(&path).expect("a node").ask(&Request::Status {});
    assert!(matches!(error, Err(AskError::Unreachable(_))), "{error:?}");
    node.join().expect("the node ends");
    std::fs::remove_dir_all(directory).expect("our directory");
}
