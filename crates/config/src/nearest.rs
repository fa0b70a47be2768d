//! The known word that a typo most likely meant.

/// The candidate with the smallest edit distance to `typed`, if that is small enough to be a typo of it: one edit in a
/// word of up to four letters, two up to eight, three beyond.
pub(crate) fn nearest<'w>(typed: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let fold = |word: &str| word.to_lowercase().replace('-', "_").chars().take(64).collect::<Vec<_>>();
    let folded = fold(typed);
    let allowed = match folded.len() {
        0..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    known
        .into_iter()
        .map(|word| (distance(&folded, &fold(word)), word))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let up = above.get(j + 1).map_or(usize::MAX, |cost| cost + 1);
            let left = row.last().map_or(usize::MAX, |cost| cost + 1);
            let change = above.get(j).map_or(usize::MAX, |cost| cost + usize::from(from != to));
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(&to) && b.get(j - 1) == Some(&from);
            let swap =
                if swapped { before.get(j - 1).map_or(usize::MAX, |cost| cost + 1) } else { usize::MAX };
            row.push(up.min(left).min(change).min(swap));
        }
        before = core::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typo_finds_the_word_that_was_meant() {
        let known = ["message_bytes_max", "headers_max", "t1", "t2", "t4"];
        assert_eq!(nearest("message_byte_max", known), Some("message_bytes_max"));
        assert_eq!(nearest("haeders_max", known), Some("headers_max"));
        assert_eq!(nearest("headers-max", known), Some("headers_max"));
        assert_eq!(nearest("something", known), None);
        assert_eq!(nearest("sha256", ["SHA-256", "MD5"]), Some("SHA-256"));
    }
}
