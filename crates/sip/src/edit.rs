//! Edits of a received message: what changes when it is forwarded, applied in one copy.

use crate::index::Span;
use crate::{Field, HeaderName, Message, chars};

#[derive(Clone, Copy, Debug)]
struct Splice {
    cut: Span,
    text: Span,
    /// Edits at one place keep the order in which they were made.
    order: u32,
}

/// A list of edits, reused from message to message.
///
/// Each names octets of the original to leave out and what to write there. They may be made in any order and must
/// not overlap; of two that do, the one further back is left out (and a debug build panics). What is inserted at the
/// start of a cut comes before it.
#[derive(Default, Debug)]
pub struct Edits {
    splices: Vec<Splice>,
    text: Vec<u8>,
}

impl Edits {
    /// No edits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all edits, keeping the buffers.
    pub fn clear(&mut self) {
        self.splices.clear();
        self.text.clear();
    }

    /// Replaces the octets of `cut` by what `write` appends.
    pub fn replace(&mut self, cut: Span, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        let text = Span { start: place(start), end: place(self.text.len()) };
        self.splices.push(Splice { cut, text, order: place(self.splices.len()) });
    }

    /// Inserts what `write` appends before the octet at `at`.
    pub fn insert(&mut self, at: u32, write: impl FnOnce(&mut Vec<u8>)) {
        self.replace(Span { start: at, end: at }, write);
    }

    /// Leaves out the octets of `cut`.
    pub fn remove(&mut self, cut: Span) {
        self.replace(cut, |_| {});
    }

    /// Removes the first `count` values of a list header field: whole lines where they hold nothing else.
    ///
    /// Serves both popping our Via off a response and dropping Route values that have been used.
    pub fn pop_values(&mut self, message: &Message<'_>, name: HeaderName, count: usize) {
        let mut left = count;
        for field in message.fields(name) {
            if left == 0 {
                return;
            }
            let mut values = field.values();
            let dropped = values.by_ref().take(left).count();
            match values.next() {
                Some(kept) => {
                    self.remove(Span { start: field.value_span.start, end: kept.span.start });
                    return;
                }
                None => self.remove(field.line),
            }
            left -= dropped;
        }
    }

    /// Removes every line of a header field.
    pub fn remove_all(&mut self, message: &Message<'_>, name: HeaderName) {
        for field in message.fields(name) {
            self.remove(field.line);
        }
    }

    /// Sets a header field that stands at most once: replaces its value, or adds a line before the others.
    pub fn set(&mut self, message: &Message<'_>, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        match message.field(name) {
            Some(field) => self.replace(field.value_span, write),
            None => self.insert(message.headers_start(), |out| {
                out.extend_from_slice(name.as_str().as_bytes());
                out.extend_from_slice(b": ");
                write(out);
                out.extend_from_slice(b"\r\n");
            }),
        }
    }

    /// Spells anew what a strict or sloppy next hop might read otherwise: white space before a colon, and folds.
    ///
    /// What other edits replace is left to them. Call it last.
    pub fn regularise(&mut self, message: &Message<'_>) {
        if !message.is_irregular() {
            return;
        }
        let earlier = self.splices.len();
        for field in message.all_fields().filter(|field| field.irregular) {
            let inside = |s: &Splice| field.line.start < s.cut.end && s.cut.start < field.line.end;
            let touched =
                |s: &Splice| inside(s) && !(s.cut.start == field.line.start && s.cut.end == s.cut.start);
            let is_touched = self.splices.get(..earlier).unwrap_or_default().iter().any(touched);
            if is_touched {
                self.regularise_around(&field, earlier);
                continue;
            }
            self.replace(field.line, |out| {
                out.extend_from_slice(field.name_bytes);
                out.extend_from_slice(b": ");
                write_unfolded(out, field.value);
                out.extend_from_slice(b"\r\n");
            });
        }
    }

    /// The same for a line in which the first `earlier` edits already replace something.
    fn regularise_around(&mut self, field: &Field<'_>, earlier: usize) {
        let colon = field.line.start + place(field.name_bytes.len());
        self.replace_unless_touched(Span { start: colon, end: field.value_span.start }, b": ", earlier);
        let mut rest = field.value;
        let mut at = field.value_span.start;
        while let Some(fold) = memchr::memchr(b'\r', rest) {
            let tail = rest.get(fold..).unwrap_or_default();
            let len = tail.iter().take_while(|&&b| chars::is_space(b)).count();
            let start = at + place(fold);
            self.replace_unless_touched(Span { start, end: start + place(len) }, b" ", earlier);
            at = start + place(len);
            rest = tail.get(len..).unwrap_or_default();
        }
        let line_break = field.line.end.saturating_sub(2).max(field.value_span.end);
        self.replace_unless_touched(Span { start: field.value_span.end, end: line_break }, b"", earlier);
    }

    fn replace_unless_touched(&mut self, cut: Span, by: &[u8], earlier: usize) {
        let touches = |s: &Splice| s.cut.start < cut.end && cut.start < s.cut.end;
        if !self.splices.get(..earlier).unwrap_or_default().iter().any(touches) {
            self.replace(cut, |out| out.extend_from_slice(by));
        }
    }

    /// Writes the edited message to the end of `out`.
    pub fn write(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        // What is inserted where a cut starts comes before it, or it would lie inside.
        self.splices.sort_unstable_by_key(|s| (s.cut.start, s.cut.end != s.cut.start, s.order));
        let bytes = message.bytes();
        let mut at = 0;
        out.reserve(bytes.len() + self.text.len());
        for splice in &self.splices {
            if splice.cut.start < at {
                debug_assert!(false, "edits overlap");
                continue;
            }
            out.extend_from_slice(Span { start: at, end: splice.cut.start }.of(bytes));
            out.extend_from_slice(splice.text.of(&self.text));
            at = splice.cut.end;
        }
        out.extend_from_slice(bytes.get(at as usize..).unwrap_or_default());
    }
}

/// Writes a value with each fold as one space.
pub(crate) fn write_unfolded(out: &mut Vec<u8>, value: &[u8]) {
    if memchr::memchr(b'\r', value).is_none() {
        out.extend_from_slice(value);
        return;
    }
    let mut in_fold = false;
    for &b in value {
        match b {
            b'\r' | b'\n' => in_fold = true,
            b' ' | b'\t' if in_fold => {}
            _ => {
                if in_fold {
                    out.push(b' ');
                }
                in_fold = false;
                out.push(b);
            }
        }
    }
}

fn place(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
