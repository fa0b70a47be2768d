//! Passwords: asked for without echo, read from standard input, or made. Never taken from the command line, where every
//! user of the machine could read them.

use anyhow::{Context as _, ensure};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::io::{BufRead as _, IsTerminal as _, Read as _};

/// Octets of a password.
const BYTES_MAX: u64 = 256;
/// Without `0 O 1 I l`, which people mistake for each other when they read a password aloud.
const ALPHABET: &[u8] = b"23456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ";

/// Where a password comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Password {
    /// Given by the operator.
    Given(String),
    /// Made here, to be shown once.
    Made(String),
}

impl Password {
    /// The password.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Given(text) | Self::Made(text) => text,
        }
    }
}

/// From the first line of standard input if `stdin`; else asked for on the terminal, an empty answer meaning "make
/// one"; made without a terminal.
///
/// # Errors
///
/// If none can be read, or it is no good.
pub(crate) fn obtain(user: &str, stdin: bool) -> anyhow::Result<Password> {
    if stdin {
        return Ok(Password::Given(sound(read_line()?)?));
    }
    if !std::io::stdin().is_terminal() {
        return Ok(Password::Made(make()?));
    }
    let first = ask(&format!("Password for {user} (empty: one is made): "))?;
    if first.is_empty() {
        return Ok(Password::Made(make()?));
    }
    let first = sound(first)?;
    ensure!(first == ask("Again: ")?, "the two passwords differ");
    Ok(Password::Given(first))
}

/// Sixteen characters, 93 bits.
///
/// # Errors
///
/// If the system has no randomness.
pub(crate) fn make() -> anyhow::Result<String> {
    let mut password = String::new();
    while password.len() < 16 {
        let mut bytes = [0; 32];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .context("reading the system's randomness")?;
        // Bytes beyond the largest multiple of the alphabet would favour its start.
        let even = bytes.iter().filter(|byte| usize::from(**byte) < 256 / ALPHABET.len() * ALPHABET.len());
        let letters = even.filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()));
        password.extend(letters.map(|letter| char::from(*letter)).take(16 - password.len()));
    }
    Ok(password)
}

fn sound(password: String) -> anyhow::Result<String> {
    ensure!(!password.is_empty(), "the password is empty");
    ensure!(!password.chars().any(char::is_control), "the password has control characters");
    Ok(password)
}

fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().take(BYTES_MAX + 2).read_line(&mut line).context("reading the password")?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    ensure!(u64::try_from(line.len())? <= BYTES_MAX, "the password has more than {BYTES_MAX} octets");
    Ok(line.to_owned())
}

/// Asks on the terminal with echo off, which comes back whatever happens.
fn ask(prompt: &str) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    let before = tcgetattr(&stdin).context("asking the terminal")?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    eprint!("{prompt}");
    tcsetattr(&stdin, OptionalActions::Flush, &quiet).context("asking the terminal")?;
    let line = read_line();
    tcsetattr(&stdin, OptionalActions::Flush, &before).context("asking the terminal")?;
    eprintln!();
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_password_is_long_enough_and_never_the_same() {
        let (one, two) = (make().expect("randomness"), make().expect("randomness"));
        assert_eq!((one.len(), two.len()), (16, 16));
        assert_ne!(one, two);
        assert!(one.bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}
