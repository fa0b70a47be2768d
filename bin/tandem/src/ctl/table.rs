//! Lists for people: columns as wide as they need to be, and nothing that acts on the terminal.

use std::io::{self, Write};

/// What a peer chose, a contact or a User-Agent, without the characters that would act on the terminal.
pub(crate) fn clean(text: &str) -> String {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if acts(c) { '\u{fffd}' } else { c }).collect()
}

/// Writes `rows` under `heads`; the last column is not padded.
pub(crate) fn write<const N: usize>(
    out: &mut impl Write,
    heads: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| clean(cell))).collect();
    let mut widths = heads.map(|head| head.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(heads)?;
    for row in &rows {
        line(row.each_ref().map(String::as_str))?;
    }
    Ok(())
}

/// A number of seconds as people say it: `3 d 4 h`, `12 min 5 s`.
pub(crate) fn duration(secs: u64) -> String {
    let (days, hours, minutes, seconds) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60, secs % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_cells_and_nothing_acts_on_the_terminal() {
        let mut out = Vec::new();
        let rows = [
            ["alice@localhost".to_owned(), "evil\x1b[2J\nphone".to_owned()],
            ["bob".to_owned(), String::new()],
        ];
        write(&mut out, ["USER", "AGENT"], &rows).expect("a vector takes all");
        let expected = "USER             AGENT\nalice@localhost  evil\u{fffd}[2J\u{fffd}phone\nbob\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn durations_are_told_in_two_units() {
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(725), "12 min 5 s");
        assert_eq!(duration(3_600), "1 h 0 min");
        assert_eq!(duration(273_600), "3 d 4 h");
    }
}
