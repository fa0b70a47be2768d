//! baresip: a real user agent, without sound card: a file of sound in, a file out, told what to do over `ctrl_tcp`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::{Lab, Port, Running};

/// How long it may take to do what it was told.
const PATIENCE: Duration = Duration::from_secs(15);

/// One baresip with one account.
#[derive(Debug)]
pub struct Baresip {
    name: String,
    running: Running,
    control: TcpStream,
    /// What it has reported and nobody has asked for yet: netstrings of JSON.
    events: String,
    ports: [Port; 2],
}

impl Baresip {
    /// Starts a baresip that registers `user` at `proxy`.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not come up.
    #[must_use]
    pub fn start(lab: &Lab, user: &str, password: &str, domain: &str, proxy: SocketAddr) -> Self {
        let ports = [Port::free(), Port::free()];
        let [sip, control] = &ports;
        let name = format!("baresip-{user}");
        let modules =
            ["/usr/lib/baresip/modules", "/usr/local/lib/baresip/modules", "/usr/lib64/baresip/modules"]
                .into_iter()
                .find(|dir| Path::new(dir).exists())
                .unwrap_or("/usr/lib/baresip/modules");
        let dir = lab.dir().join(&name);
        lab.write(
            &format!("{name}/config"),
            &format!(
                "sip_listen {sip}\nnet_interface 127.0.0.1\nrtp_ports 12000-19998\ncall_local_timeout 30\n\
                 audio_source aufile,{tone}\naudio_player aufile,{out}\naudio_alert aufile,{out}\n\
                 module_path {modules}\nmodule g711.so\nmodule aufile.so\n\
                 module_tmp account.so\nmodule_app menu.so\nmodule_app ctrl_tcp.so\n\
                 ctrl_tcp_listen {control}\n",
                sip = sip.v4(),
                control = control.v4(),
                tone = dir.join("tone.wav").display(),
                out = lab.dir().join(format!("{name}/heard.wav")).display(),
            ),
        );
        lab.write(
            &format!("{name}/accounts"),
            &format!(
                "<sip:{user}@{domain}>;auth_user={user};auth_pass={password};outbound=\"sip:{proxy}\";\
                 regint=60;audio_codecs=pcmu\n"
            ),
        );
        lab.write(&format!("{name}/contacts"), "");
        std::fs::write(dir.join("tone.wav"), tone()).expect("the laboratory's directory is writable");
        let mut running = Running::start(lab.dir(), &name, "baresip", |command| {
            command.arg("-4").arg("-s").arg("-f").arg(&dir);
        });
        let mut connection = None;
        running.wait_until("it takes commands", PATIENCE, |_| {
            connection = TcpStream::connect(control.v4()).ok();
            connection.is_some()
        });
        let control = connection.expect("just connected");
        control.set_read_timeout(Some(PATIENCE)).expect("a time limit can be set");
        Self { name, running, control, events: String::new(), ports }
    }

    /// Waits until its registration was accepted.
    ///
    /// # Panics
    ///
    /// If it is refused or nothing happens.
    pub fn wait_registered(&mut self) {
        // Not by its REGISTER_OK event: that may have been told before anybody was connected to hear it.
        self.running.wait_until("its registration is accepted", PATIENCE, |log| log.contains("SIP/2.0 200 "));
    }

    /// Its SIP address.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        let [sip, _] = &self.ports;
        sip.v4()
    }

    /// What it has written so far, every SIP message it sent or received among it.
    #[must_use]
    pub fn log(&self) -> String {
        self.running.log()
    }

    /// Calls `uri`.
    pub fn dial(&mut self, uri: &str) {
        self.command("dial", uri);
    }

    /// Waits for a call and answers it.
    pub fn accept(&mut self) {
        self.wait_event("CALL_INCOMING");
        self.accept_ringing();
    }

    /// Answers the call that rings.
    pub fn accept_ringing(&mut self) {
        self.command("accept", "");
    }

    /// Ends the call.
    pub fn hang_up(&mut self) {
        self.command("hangup", "");
    }

    /// Waits for an event by baresip's name (`CALL_ESTABLISHED`, `CALL_CLOSED`, ...); earlier ones are forgotten.
    ///
    /// # Panics
    ///
    /// If it does not come in time.
    pub fn wait_event(&mut self, event: &str) {
        let wanted = format!("\"type\":\"{event}\"");
        let mut chunk = [0; 4096];
        loop {
            if let Some(at) = self.events.find(&wanted) {
                self.events.drain(..at + wanted.len());
                return;
            }
            match self.control.read(&mut chunk) {
                Ok(0) | Err(_) => panic!("{}: no {event} in time; it said:\n{}", self.name, self.events),
                Ok(length) => {
                    let text = String::from_utf8_lossy(chunk.get(..length).unwrap_or_default());
                    self.events.push_str(&text);
                }
            }
        }
    }

    /// Sends one command: a netstring of JSON.
    fn command(&mut self, command: &str, params: &str) {
        let json = format!("{{\"command\":\"{command}\",\"params\":\"{params}\"}}");
        let frame = format!("{}:{json},", json.len());
        self.control.write_all(frame.as_bytes()).expect("baresip takes commands");
    }
}

/// Twenty seconds of a square wave, 8 kHz, mono, 16 bits: a WAV file.
fn tone() -> Vec<u8> {
    let rate: u32 = 8_000;
    let bytes = 20 * rate * 2;
    let mut file = Vec::new();
    file.extend(b"RIFF");
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    file.extend([1, 0, 1, 0]); // PCM, one channel
    file.extend(rate.to_le_bytes());
    file.extend((rate * 2).to_le_bytes());
    file.extend([2, 0, 16, 0]); // two bytes a frame, 16 bits a sample
    file.extend(b"data");
    file.extend(bytes.to_le_bytes());
    for sample in 0..20 * rate {
        let level: i16 = if sample / 10 % 2 == 0 { 6_000 } else { -6_000 };
        file.extend(level.to_le_bytes());
    }
    file
}
