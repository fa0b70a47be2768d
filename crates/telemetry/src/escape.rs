//! A log line stays one line and does nothing to the terminal it is read on, whatever a peer put into it.

use std::io::{self, Write};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Makes writers that escape what could act on a reader, around the writers of `inner`.
#[derive(Clone, Debug)]
pub(crate) struct Escaping<M> {
    pub(crate) inner: M,
    pub(crate) json: bool,
    /// Whether each line starts with its syslog priority, `<6>`, which journald reads (sd-daemon(3)).
    pub(crate) priorities: bool,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Escaping<M> {
    type Writer = EscapingWriter<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapingWriter { inner: self.inner.make_writer(), json: self.json, priority: "" }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Self::Writer {
        let priority = match *meta.level() {
            _ if !self.priorities => "",
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            Level::DEBUG | Level::TRACE => "<7>",
        };
        EscapingWriter { inner: self.inner.make_writer_for(meta), json: self.json, priority }
    }
}

/// Writes one event, which comes in one piece with the newline that ends it.
pub(crate) struct EscapingWriter<W> {
    inner: W,
    json: bool,
    priority: &'static str,
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut line = String::with_capacity(event.len() + 16);
        line.push_str(self.priority);
        escape(&String::from_utf8_lossy(event.strip_suffix(b"\n").unwrap_or(event)), self.json, &mut line);
        line.push('\n');
        self.inner.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Control characters move the cursor, end lines or start escape sequences; the others reorder what is read.
fn acts_on_a_reader(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn escape(text: &str, json: bool, out: &mut String) {
    for c in text.chars() {
        match u32::from(c) {
            _ if !acts_on_a_reader(c) => out.push(c),
            // All of them lie in the basic plane, so one JSON escape is enough.
            code if json => out.push_str(&format!("\\u{code:04x}")),
            code if code < 0x80 => out.push_str(&format!("\\x{code:02x}")),
            code => out.push_str(&format!("\\u{{{code:x}}}")),
        }
    }
}
