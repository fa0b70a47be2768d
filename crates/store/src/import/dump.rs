//! Dumps: `mysqldump`/`mariadb-dump`, `pg_dump` (COPY or INSERT), and SQLite's `.dump`.
//!
//! Read byte by byte in one pass, so that a dump of any size takes little memory. Of all statements three are looked
//! into: CREATE TABLE for the order of columns, INSERT (or REPLACE) and COPY for rows; everything else is skipped to
//! its semicolon, with respect to quotes and comments. Where the dump has no CREATE TABLE and an INSERT names no
//! columns, the number of values tells the version of the schema.

use std::io::Read;
use std::sync::Arc;

use super::{Item, RawRow, Source, Table};

const SUBSCRIBER: &str = "id username domain password ha1 ha1b";
const SUBSCRIBER_6: &str = "id username domain password email_address ha1 ha1b rpid";
const LOCATION_8: &str = "id ruid username domain contact received path expires q callid cseq last_modified flags cflags \
                          user_agent socket methods instance reg_id server_id connection_id keepalive partition";
const DISPATCHER_4: &str = "id setid destination flags priority attrs description";
const LOAD_BALANCER_3: &str = "id group_id dst_uri resources probe_mode attrs description";
/// No value of these tables comes near; a longer one is a broken dump.
const VALUE_BYTES_MAX: usize = 1 << 16;
const COLUMNS_MAX: usize = 256;

/// A dump, read from any byte stream.
#[derive(Debug)]
pub struct Dump<R> {
    input: Input<R>,
    state: State,
    /// The tables that are read, each with its columns in the order of CREATE TABLE.
    tables: Vec<(Table, Option<Arc<[String]>>)>,
    /// MySQL's strings have backslash escapes; those of the others have not.
    backslash: bool,
}

#[derive(Debug)]
enum State {
    /// Between statements.
    Between,
    /// Among the rows of an INSERT.
    Values { table: Table, columns: Option<Arc<[String]>> },
    /// Among the lines of a COPY.
    Copy { table: Table, columns: Option<Arc<[String]>> },
}

/// Why the dump ends before its end.
type Fault = String;

impl<R: Read> Dump<R> {
    /// Reads the rows of `tables` from `input`.
    pub fn new(input: R, tables: &[Table]) -> Self {
        let input = Input { inner: input, buffer: vec![0; 1 << 16], at: 0, filled: 0, line: 1 };
        let tables = tables.iter().map(|&table| (table, None)).collect();
        Self { input, state: State::Between, tables, backslash: true }
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// A failed read.
    pub fn next_item(&mut self) -> Result<Option<Item>, String> {
        loop {
            let item = match std::mem::replace(&mut self.state, State::Between) {
                State::Between => {
                    if !self.statement()? {
                        return Ok(None);
                    }
                    continue;
                }
                State::Values { table, columns } => self.values(table, columns)?,
                State::Copy { table, columns } => self.copy_line(table, columns)?,
            };
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    /// Reads a statement up to its rows, or skips it; `false` at the end.
    fn statement(&mut self) -> Result<bool, Fault> {
        self.input.skip_space()?;
        match self.input.peek()? {
            None => return Ok(false),
            // A command to psql takes one line.
            Some(b'\\') => {
                self.input.skip_line()?;
                return Ok(true);
            }
            Some(_) => {}
        }
        let word = self.input.word()?.to_ascii_uppercase();
        match word.as_str() {
            "INSERT" | "REPLACE" => self.insert()?,
            "COPY" => self.copy()?,
            "CREATE" => self.create()?,
            _ => {
                let second = if word == "SET" { self.space_word()? } else { String::new() };
                // A dump of SQLite or PostgreSQL says so early.
                if word == "PRAGMA" || second.eq_ignore_ascii_case("standard_conforming_strings") {
                    self.backslash = false;
                }
                self.input.skip_statement(self.backslash)?;
            }
        }
        Ok(true)
    }

    fn space_word(&mut self) -> Result<String, Fault> {
        self.input.skip_space()?;
        self.input.word()
    }

    /// A table name, of which the last part counts: `kamailio`.`location`, public.location.
    fn table_name(&mut self) -> Result<Option<Table>, Fault> {
        self.input.skip_space()?;
        let mut name = self.input.name()?;
        while self.input.peek()? == Some(b'.') {
            self.input.bump()?;
            name = self.input.name()?;
        }
        Ok(self.tables.iter().map(|(table, _)| *table).find(|table| table.name() == name))
    }

    fn insert(&mut self) -> Result<(), Fault> {
        for _ in 0..4 {
            if self.space_word()?.eq_ignore_ascii_case("INTO") {
                break;
            }
        }
        let Some(table) = self.table_name()? else { return self.input.skip_statement(self.backslash) };
        self.input.skip_space()?;
        let named = if self.input.peek()? == Some(b'(') { Some(self.name_list()?) } else { None };
        if !self.space_word()?.eq_ignore_ascii_case("VALUES") {
            return self.input.skip_statement(self.backslash);
        }
        let columns = named.or_else(|| self.columns_of(table));
        self.state = State::Values { table, columns };
        Ok(())
    }

    fn copy(&mut self) -> Result<(), Fault> {
        let table = self.table_name()?;
        self.input.skip_space()?;
        let named = if self.input.peek()? == Some(b'(') { Some(self.name_list()?) } else { None };
        self.input.skip_statement(false)?;
        self.input.skip_line()?;
        match table {
            Some(table) => {
                let columns = named.or_else(|| self.columns_of(table));
                self.state = State::Copy { table, columns };
            }
            None => while !matches!(self.input.read_line()?.as_deref(), None | Some(b"\\.")) {},
        }
        Ok(())
    }

    /// CREATE TABLE [IF NOT EXISTS] name (column type .., .., KEY ..)
    fn create(&mut self) -> Result<(), Fault> {
        if !self.space_word()?.eq_ignore_ascii_case("TABLE") {
            return self.input.skip_statement(self.backslash);
        }
        self.input.skip_space()?;
        if matches!(self.input.peek()?, Some(b'i' | b'I')) {
            for _ in ["IF", "NOT", "EXISTS"] {
                self.space_word()?;
            }
        }
        let table = self.table_name()?;
        self.input.skip_space()?;
        let Some(table) = table.filter(|_| self.input.at_byte() == Some(b'(')) else {
            return self.input.skip_statement(self.backslash);
        };
        self.input.bump()?;
        let mut columns = Vec::new();
        loop {
            self.input.skip_space()?;
            let quoted = matches!(self.input.peek()?, Some(b'`' | b'"'));
            let name = self.input.name()?;
            let is_key = ["PRIMARY", "UNIQUE", "KEY", "CONSTRAINT", "INDEX", "FULLTEXT", "CHECK"]
                .iter()
                .any(|word| name.eq_ignore_ascii_case(word));
            if (quoted || !is_key) && !name.is_empty() && columns.len() < COLUMNS_MAX {
                columns.push(name);
            }
            if !self.input.skip_column(self.backslash)? {
                break;
            }
        }
        if let Some((_, known)) = self.tables.iter_mut().find(|(read, _)| *read == table) {
            *known = Some(columns.into());
        }
        self.input.skip_statement(self.backslash)
    }

    fn columns_of(&self, table: Table) -> Option<Arc<[String]>> {
        self.tables.iter().find(|(read, _)| *read == table).and_then(|(_, columns)| columns.clone())
    }

    fn name_list(&mut self) -> Result<Arc<[String]>, Fault> {
        let mut names = Vec::new();
        self.input.bump()?;
        loop {
            self.input.skip_space()?;
            let name = self.input.name()?;
            if !name.is_empty() && names.len() < COLUMNS_MAX {
                names.push(name);
            }
            self.input.skip_space()?;
            match self.input.bump()? {
                Some(b',') => {}
                _ => return Ok(names.into()),
            }
        }
    }

    /// Reads one parenthesised row; `None` once the statement has ended.
    fn values(&mut self, table: Table, columns: Option<Arc<[String]>>) -> Result<Option<Item>, Fault> {
        loop {
            self.input.skip_space()?;
            match self.input.peek()? {
                Some(b',') => {
                    self.input.bump()?;
                }
                Some(b'(') => break,
                // A semicolon, or ON DUPLICATE KEY and its like.
                Some(_) | None => {
                    self.input.skip_statement(self.backslash)?;
                    return Ok(None);
                }
            }
        }
        let line = self.input.line;
        self.input.bump()?;
        let mut values = Vec::new();
        loop {
            self.input.skip_space()?;
            let value = self.input.value(self.backslash)?;
            self.input.skip_space()?;
            let end = self.input.bump()?;
            match (value, end) {
                (Ok(value), Some(b',' | b')')) if values.len() < COLUMNS_MAX => values.push(value),
                (value, _) => {
                    // Where the row ends can't be told any more: the statement is given up.
                    self.input.skip_statement(self.backslash)?;
                    let why =
                        value.err().unwrap_or("a row that can't be read, and what follows in its statement");
                    return Ok(Some(Item::Broken { table, line, why }));
                }
            }
            if end == Some(b')') {
                break;
            }
        }
        self.state = State::Values { table, columns: columns.clone() };
        Ok(Some(row(table, line, columns, values)))
    }

    fn copy_line(&mut self, table: Table, columns: Option<Arc<[String]>>) -> Result<Option<Item>, Fault> {
        let line = self.input.line;
        let text = match self.input.read_line()? {
            None => return Ok(None),
            Some(text) if text == b"\\." => return Ok(None),
            Some(text) => text,
        };
        self.state = State::Copy { table, columns: columns.clone() };
        if text.len() >= VALUE_BYTES_MAX {
            return Ok(Some(Item::Broken { table, line, why: "a line too long" }));
        }
        let value = |text: &[u8]| if text == b"\\N" { None } else { Some(unescape_copy(text)) };
        let values = text.split(|&byte| byte == b'\t').map(value).collect();
        Ok(Some(row(table, line, columns, values)))
    }
}

impl<R: Read + Send> Source for Dump<R> {
    async fn next(&mut self) -> Result<Option<Item>, String> {
        self.next_item()
    }
}

fn row(table: Table, line: u64, columns: Option<Arc<[String]>>, values: Vec<Option<Vec<u8>>>) -> Item {
    let columns = columns.or_else(|| {
        let names = match (table, values.len()) {
            (Table::Subscriber, 6) => SUBSCRIBER,
            (Table::Subscriber, 8) => SUBSCRIBER_6,
            (Table::Location, 23) => LOCATION_8,
            (Table::Dispatcher, 7) => DISPATCHER_4,
            (Table::LoadBalancer, 7) => LOAD_BALANCER_3,
            (Table::Subscriber | Table::Location | Table::Dispatcher | Table::LoadBalancer, _) => {
                return None;
            }
        };
        Some(names.split_ascii_whitespace().map(str::to_owned).collect())
    });
    match columns {
        Some(columns) if columns.len() == values.len() => Item::Row(RawRow { table, line, columns, values }),
        Some(_) | None => {
            Item::Broken { table, line, why: "number of values fits no known version of the table" }
        }
    }
}

fn unescape_copy(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        out.push(if byte == b'\\' { unescaped(bytes.next().copied().unwrap_or(b'\\')) } else { byte });
    }
    out
}

/// What a letter after a backslash stands for, in MySQL's strings and in COPY.
const fn unescaped(byte: u8) -> u8 {
    match byte {
        b'0' => 0,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'r' => b'\r',
        b'Z' => 26,
        other => other,
    }
}

/// Bytes with one byte of looking ahead, and the number of the line.
struct Input<R> {
    inner: R,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    line: u64,
}

impl<R> std::fmt::Debug for Input<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("line", &self.line).finish_non_exhaustive()
    }
}

impl<R> Input<R> {
    fn at_byte(&self) -> Option<u8> {
        if self.at < self.filled { self.buffer.get(self.at).copied() } else { None }
    }
}

impl<R: Read> Input<R> {
    fn peek(&mut self) -> Result<Option<u8>, Fault> {
        if self.at == self.filled {
            self.at = 0;
            self.filled =
                self.inner.read(&mut self.buffer).map_err(|error| format!("line {}: {error}", self.line))?;
        }
        Ok(self.at_byte())
    }

    fn bump(&mut self) -> Result<Option<u8>, Fault> {
        let byte = self.peek()?;
        if let Some(byte) = byte {
            self.at += 1;
            self.line += u64::from(byte == b'\n');
        }
        Ok(byte)
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) -> Result<(), Fault> {
        loop {
            match self.peek()? {
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.bump()?;
                }
                Some(b'#') => self.skip_line()?,
                // A minus may also begin a number: looked at twice, since values are read from the sign on.
                Some(b'-') if self.second()? == Some(b'-') => self.skip_line()?,
                Some(b'/') if self.second()? == Some(b'*') => {
                    let mut last = 0;
                    while let Some(byte) = self.bump()? {
                        if last == b'*' && byte == b'/' {
                            break;
                        }
                        last = byte;
                    }
                }
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// The byte after the next one.
    fn second(&mut self) -> Result<Option<u8>, Fault> {
        if self.at + 1 == self.filled {
            // The next byte is the last of the buffer: it moves to the front and more is read behind it.
            let byte = self.at_byte().unwrap_or_default();
            if let [first, rest @ ..] = self.buffer.as_mut_slice() {
                *first = byte;
                let read = self.inner.read(rest).map_err(|error| format!("line {}: {error}", self.line))?;
                self.at = 0;
                self.filled = 1 + read;
            }
        }
        Ok(if self.at + 1 < self.filled { self.buffer.get(self.at + 1).copied() } else { None })
    }

    fn skip_line(&mut self) -> Result<(), Fault> {
        while !matches!(self.bump()?, None | Some(b'\n')) {}
        Ok(())
    }

    /// The rest of the line, at most [`VALUE_BYTES_MAX`] bytes of it, without its end; `None` at the end.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        if self.peek()?.is_none() {
            return Ok(None);
        }
        let mut line = Vec::new();
        loop {
            match self.bump()? {
                None | Some(b'\n') => break,
                Some(byte) if line.len() < VALUE_BYTES_MAX => line.push(byte),
                Some(_) => {}
            }
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    fn word(&mut self) -> Result<String, Fault> {
        let mut word = String::new();
        while let Some(byte) = self.peek()? {
            if !(byte.is_ascii_alphanumeric() || byte == b'_') || word.len() > 64 {
                break;
            }
            word.push(char::from(byte));
            self.bump()?;
        }
        Ok(word)
    }

    /// A word, or a name in backticks or double quotes.
    fn name(&mut self) -> Result<String, Fault> {
        match self.peek()? {
            Some(quote @ (b'`' | b'"')) => {
                self.bump()?;
                let text = self.quoted(quote, false)?.unwrap_or_default();
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Some(_) | None => self.word(),
        }
    }

    /// The rest of a quoted text; too long a one is read to its end and is `None`.
    fn quoted(&mut self, quote: u8, backslash: bool) -> Result<Option<Vec<u8>>, Fault> {
        let mut text = Vec::new();
        loop {
            let byte = match self.bump()? {
                None => return Ok(None),
                Some(byte) if byte == quote => {
                    if self.peek()? != Some(quote) {
                        return Ok((text.len() < VALUE_BYTES_MAX).then_some(text));
                    }
                    self.bump()?;
                    quote
                }
                Some(b'\\') if backslash => unescaped(self.bump()?.unwrap_or(b'\\')),
                Some(byte) => byte,
            };
            if text.len() < VALUE_BYTES_MAX {
                text.push(byte);
            }
        }
    }

    /// One value of a row: a string, a number, NULL, or hexadecimal.
    fn value(&mut self, backslash: bool) -> Result<Result<Option<Vec<u8>>, &'static str>, Fault> {
        if self.peek()? == Some(b'\'') {
            self.bump()?;
            return Ok(self.quoted(b'\'', backslash)?.map(Some).ok_or("a value too long or without an end"));
        }
        let mut text = Vec::new();
        while let Some(byte) = self.peek()? {
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_'))
                || text.len() > 1024
            {
                break;
            }
            text.push(byte);
            self.bump()?;
        }
        // `_binary 'abc'`, `E'abc'`, `X'6162'`
        if !text.is_empty() {
            self.skip_space()?;
            if self.peek()? == Some(b'\'') {
                self.bump()?;
                let inner = self.quoted(b'\'', backslash || text.eq_ignore_ascii_case(b"E"))?;
                let inner = inner.ok_or("a value too long or without an end");
                let is_hex = text.eq_ignore_ascii_case(b"X");
                return Ok(
                    inner.and_then(|inner| if is_hex { unhex(&inner).map(Some) } else { Ok(Some(inner)) })
                );
            }
        }
        Ok(match text.as_slice() {
            [] => Err("a value is missing"),
            null if null.eq_ignore_ascii_case(b"NULL") => Ok(None),
            [b'0', b'x' | b'X', digits @ ..] => unhex(digits).map(Some),
            _ => Ok(Some(text)),
        })
    }

    /// Skips to behind the semicolon that ends the statement.
    fn skip_statement(&mut self, backslash: bool) -> Result<(), Fault> {
        loop {
            self.skip_space()?;
            match self.bump()? {
                None | Some(b';') => return Ok(()),
                Some(quote @ (b'\'' | b'"' | b'`')) => {
                    self.quoted(quote, backslash && quote != b'`')?;
                }
                Some(_) => {}
            }
        }
    }

    /// Skips the rest of a column's definition; `false` behind the parenthesis that ends the table's.
    fn skip_column(&mut self, backslash: bool) -> Result<bool, Fault> {
        let mut depth = 0_u32;
        loop {
            self.skip_space()?;
            match self.bump()? {
                None => return Ok(false),
                Some(b',') if depth == 0 => return Ok(true),
                Some(b')') if depth == 0 => return Ok(false),
                Some(b'(') => depth += 1,
                Some(b')') => depth -= 1,
                Some(quote @ (b'\'' | b'"' | b'`')) => {
                    self.quoted(quote, backslash && quote != b'`')?;
                }
                Some(_) => {}
            }
        }
    }
}

fn unhex(digits: &[u8]) -> Result<Vec<u8>, &'static str> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect::<Option<_>>().ok_or("not hexadecimal")
}
