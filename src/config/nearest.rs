//! Which known word someone meant.
//!
//! It only proposes; nothing is ever taken for another word than the one that was written.

/// The known word that `word` begins, if there is only one, else the one that is the fewest slips away (at most a third of
/// its letters). `_` and case count for nothing: `WSGI_APP` means `wsgi-app`.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let word: Vec<char> = word
        .chars()
        .map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() })
        .take(64)
        .collect();
    let mut begun = known.clone().filter(|name| starts_with(name, &word));
    if let (Some(name), None) = (begun.next(), begun.next()) {
        return Some(name);
    }
    known
        .map(|name| (slips(&word, &name.chars().collect::<Vec<_>>()), name))
        .filter(|(slips, name)| *slips <= name.len().max(3) / 3)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

fn starts_with(name: &str, word: &[char]) -> bool {
    let mut letters = name.chars();
    !word.is_empty() && word.iter().all(|c| letters.next() == Some(*c))
}

/// Insertions, deletions, replacements, and swaps of neighbours that make one word of the other.
fn slips(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(x != y);
            let mut fewest = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                fewest = fewest.min(before[j - 1] + 1);
            }
            row.push(fewest);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_beginnings_lead_to_the_word() {
        let known =
            ["workers", "wsgi-app", "app-path", "keep-alive", "log-level", "threads", "send"];
        for (word, meant) in [
            ("worker", Some("workers")),
            ("work", Some("workers")),
            ("w", None),
            ("wrokers", Some("workers")),
            ("wsgi_app", Some("wsgi-app")),
            ("WSGI_APP", Some("wsgi-app")),
            ("log", Some("log-level")),
            ("loglevel", Some("log-level")),
            ("thread", Some("threads")),
            ("sned", Some("send")),
            ("sand", Some("send")),
            ("", None),
            ("bind", None),
            ("zzzzzzz", None),
        ] {
            assert_eq!(nearest(word, known.iter().copied()), meant, "{word}");
        }
    }
}
