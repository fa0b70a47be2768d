//! The node's end of the control socket.
//!
//! Connections, line lengths and idle times are bounded, and only the node's own user and root are heard: the file's
//! mode says so, and the kernel's word on the peer (SO_PEERCRED) is checked as well, since a mode can be changed.

use crate::control::protocol::{Answer, Code, Failure, Outcome, REQUEST_BYTES_MAX, Request};
use anyhow::{Context as _, bail};
use core::time::Duration;
use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Connections at a time; a further one waits.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may say nothing, or take to send a line.
const IDLE: Duration = Duration::from_secs(60);

/// What obeys the requests.
pub(crate) trait Control: Send + Sync + 'static {
    /// Does what `request` says. It runs on the control threads and may wait.
    fn control(&self, request: Request) -> impl Future<Output = Outcome> + Send;
}

/// The bound socket, whose file goes when this does.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Binds `path`, replacing the file that a killed node left.
    ///
    /// # Errors
    ///
    /// If another node listens there, or something else than a socket has that name, or the directory is not ours.
    pub(crate) async fn bind(path: &Path) -> anyhow::Result<Self> {
        if let Ok(meta) = std::fs::symlink_metadata(path) {
            if !meta.file_type().is_socket() {
                bail!("{} exists and is no socket", path.display());
            }
            if UnixStream::connect(path).await.is_ok() {
                bail!("another node listens on {}", path.display());
            }
            std::fs::remove_file(path).with_context(|| format!("removing the stale {}", path.display()))?;
        }
        let listener = UnixListener::bind(path).with_context(|| format!("binding {}", path.display()))?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))
            .with_context(|| format!("closing {} to others", path.display()))?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Serves until the future is dropped.
    pub(crate) async fn serve(self, control: Arc<impl Control>) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            // The semaphore is never closed.
            let permit = Arc::clone(&permits).acquire_owned().await.ok();
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let control = Arc::clone(&control);
                    tokio::spawn(async move {
                        converse(stream, control.as_ref()).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the control socket could not accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Answers one connection's requests, one after the other, until it ends or breaks the rules.
async fn converse(mut stream: UnixStream, control: &impl Control) {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own || peer.uid() == 0 => {}
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "another user was refused on the control socket");
            return;
        }
        Err(error) => {
            tracing::warn!(%error, "a peer without credentials was refused on the control socket");
            return;
        }
    }
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(REQUEST_BYTES_MAX).unwrap_or(u64::MAX);
        match timeout(IDLE, (&mut read).take(limit).read_until(b'\n', &mut line)).await {
            Ok(Ok(1..)) => {}
            Ok(Ok(0) | Err(_)) | Err(_) => return,
        }
        let whole = line.last() == Some(&b'\n');
        let answer = if whole { obey(&line, control).await } else { oversize(line.len()) };
        let Ok(mut bytes) = serde_json::to_vec(&answer) else { return };
        bytes.push(b'\n');
        if !matches!(timeout(IDLE, write.write_all(&bytes)).await, Ok(Ok(()))) || !whole {
            return;
        }
    }
}

async fn obey(line: &[u8], control: &impl Control) -> Answer {
    let request = match serde_json::from_slice::<Request>(line) {
        Ok(request) => request,
        Err(error) => return Answer::Error(Failure::new(Code::Malformed, error.to_string())),
    };
    let (name, is_change) = (request.name(), request.is_change());
    let outcome = control.control(request).await;
    if is_change {
        match &outcome {
            Ok(_) => tracing::info!(op = name, "control request done"),
            Err(failure) => tracing::info!(op = name, code = ?failure.code, "control request refused"),
        }
    }
    outcome.map_or_else(Answer::Error, Answer::Ok)
}

/// Too long, or cut off by the peer: what follows can't be told from the rest of it, so the connection ends.
fn oversize(len: usize) -> Answer {
    let message = if len >= REQUEST_BYTES_MAX {
        format!("the line is longer than {REQUEST_BYTES_MAX} octets")
    } else {
        "the line does not end".to_owned()
    };
    Answer::Error(Failure::new(Code::Malformed, message))
}
