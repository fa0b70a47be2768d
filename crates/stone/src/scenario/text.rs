//! The text of a `<send>`: literal pieces and SIPp's bracketed keywords.

use crate::template::put_decimal;

/// Text with keywords.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Text(pub(crate) Vec<Piece>);

/// One piece of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Piece {
    Literal(Vec<u8>),
    Keyword(Keyword),
}

/// A keyword that has been understood.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Keyword {
    Service,
    RemoteIp,
    RemotePort,
    Transport,
    LocalIp,
    LocalIpType,
    LocalPort,
    MediaIp,
    MediaIpType,
    MediaPort,
    Len(i32),
    CallId,
    CallNumber,
    Cseq(i32),
    Branch,
    MessageIndex,
    Pid,
    PeerTag,
    Routes,
    NextUrl,
    /// A header field of the last message, name in lower case, written whole.
    Last(String),
    /// Column of the user file.
    Field(usize),
    Variable(usize),
    Authentication {
        user: Option<Vec<u8>>,
        password: Option<Vec<u8>>,
    },
}

/// Why a text cannot be understood: the keyword, and the line within the text from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unknown {
    pub(crate) keyword: String,
    pub(crate) line: usize,
}

impl Text {
    /// Reads a text; line ends become CRLF, and the indentation of each line goes, as in SIPp.
    pub(crate) fn parse(source: &str, variables: &mut Vec<String>) -> Result<Self, Unknown> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        for (number, line) in source.trim_matches(['\n', '\r', ' ', '\t']).split('\n').enumerate() {
            let mut rest = line.trim();
            if number > 0 {
                literal.extend_from_slice(b"\r\n");
            }
            while let Some(open) = rest.find('[') {
                let (before, from) = rest.split_at(open);
                literal.extend_from_slice(before.as_bytes());
                let name = from.get(1..).and_then(|from| from.find(']').and_then(|close| from.get(..close)));
                let keyword = name.filter(|name| is_keyword(name));
                if let Some(name) = keyword {
                    let found = Keyword::parse(name, variables);
                    let found =
                        found.ok_or_else(|| Unknown { keyword: format!("[{name}]"), line: number })?;
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(core::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Keyword(found));
                    rest = from.get(name.len() + 2..).unwrap_or_default();
                } else {
                    literal.push(b'['); // an IPv6 reference, or a bracket of the text
                    rest = from.get(1..).unwrap_or_default();
                }
            }
            literal.extend_from_slice(rest.as_bytes());
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self(pieces))
    }

    /// The method, or the status line's beginning.
    pub(crate) fn first_word(&self) -> String {
        let Some(Piece::Literal(text)) = self.0.first() else { return String::new() };
        let words: Vec<_> =
            text.split(|byte| byte.is_ascii_whitespace()).take(2).map(String::from_utf8_lossy).collect();
        match words.as_slice() {
            [first, second] if first == "SIP/2.0" => second.to_string(),
            [first, ..] => first.to_string(),
            [] => String::new(),
        }
    }

    /// Ends a message without body with the empty line that the XML's layout lost.
    pub(crate) fn complete(&mut self) {
        let has_body = self.0.iter().any(|piece| match piece {
            Piece::Literal(text) => text.windows(4).any(|four| four == b"\r\n\r\n"),
            Piece::Keyword(_) => false,
        });
        self.0.push(Piece::Literal(if has_body { b"\r\n".to_vec() } else { b"\r\n\r\n".to_vec() }));
    }
}

fn is_keyword(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '$')
}

impl Keyword {
    fn parse(name: &str, variables: &mut Vec<String>) -> Option<Self> {
        let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i32>().ok() };
        Some(match name {
            "service" => Self::Service,
            "remote_ip" | "remote_host" => Self::RemoteIp,
            "remote_port" => Self::RemotePort,
            "transport" => Self::Transport,
            "local_ip" => Self::LocalIp,
            "local_ip_type" => Self::LocalIpType,
            "local_port" => Self::LocalPort,
            "media_ip" => Self::MediaIp,
            "media_ip_type" => Self::MediaIpType,
            "media_port" | "auto_media_port" => Self::MediaPort,
            "call_id" => Self::CallId,
            "call_number" => Self::CallNumber,
            "branch" => Self::Branch,
            "msg_index" => Self::MessageIndex,
            "pid" => Self::Pid,
            "peer_tag_param" => Self::PeerTag,
            "routes" => Self::Routes,
            "next_url" => Self::NextUrl,
            _ => {
                if let Some(variable) = name.strip_prefix('$') {
                    Self::Variable(variable_place(variable, variables))
                } else if let Some(column) = name.strip_prefix("field") {
                    Self::Field(column.parse().ok()?)
                } else if let Some(header) = name.strip_prefix("last_") {
                    Self::Last(header.strip_suffix(':')?.to_ascii_lowercase())
                } else if let Some(rest) = name.strip_prefix("len") {
                    Self::Len(number(rest)?)
                } else if let Some(rest) = name.strip_prefix("cseq") {
                    Self::Cseq(number(rest)?)
                } else {
                    let rest = name.strip_prefix("authentication")?;
                    let value = |key: &str| {
                        let found = rest
                            .split_whitespace()
                            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
                        found.map(|text| text.as_bytes().to_vec())
                    };
                    Self::Authentication { user: value("username"), password: value("password") }
                }
            }
        })
    }
}

/// The place of a variable; new names are added.
pub(crate) fn variable_place(name: &str, variables: &mut Vec<String>) -> usize {
    variables.iter().position(|known| known == name).unwrap_or_else(|| {
        variables.push(name.to_owned());
        variables.len() - 1
    })
}

/// Appends a signed sum as a decimal, never below zero.
pub(crate) fn put_sum(out: &mut Vec<u8>, base: u32, plus: i32) {
    put_decimal(out, base.saturating_add_signed(plus));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_told_from_brackets_and_lines_end_in_crlf() {
        let mut variables = Vec::new();
        let text = Text::parse(
            "\n  INVITE sip:[service]@[::1] SIP/2.0\n   X: [$a][cseq+2]\n\n  v=0\n",
            &mut variables,
        )
        .unwrap();
        let want = [
            Piece::Literal(b"INVITE sip:".to_vec()),
            Piece::Keyword(Keyword::Service),
            Piece::Literal(b"@[::1] SIP/2.0\r\nX: ".to_vec()),
            Piece::Keyword(Keyword::Variable(0)),
            Piece::Keyword(Keyword::Cseq(2)),
            Piece::Literal(b"\r\n\r\nv=0".to_vec()),
        ];
        assert_eq!(text.0, want);
        let unknown = Text::parse("A\nB [tdmmap]", &mut variables).unwrap_err();
        assert_eq!((unknown.keyword.as_str(), unknown.line), ("[tdmmap]", 1));
    }
}
