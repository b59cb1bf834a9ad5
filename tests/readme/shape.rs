//! Compares the shapes of two outputs: the same words in the same order, with any numbers.

/// A word, without the parts that differ between runs.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    /// Any words, or none: `...`
    Any,
    Plain(String),
    /// The beginning of a truncated word; of a truncated list, the complete words.
    Cut(String),
}

/// The first difference between the shapes of `shown` and `printed`; `None` if they match.
pub(crate) fn difference(shown: &str, printed: &str) -> Option<String> {
    let (shown, printed) = (words(shown), words(printed));
    // The prefixes of `printed` that match the words of `shown` so far. Words of `printed` may be
    // skipped only at an `Any`.
    let mut reached = vec![false; printed.len() + 1];
    reached[0] = true;
    for (at, word) in shown.iter().enumerate() {
        let mut next = vec![false; printed.len() + 1];
        for from in (0..=printed.len()).filter(|from| reached[*from]) {
            match word {
                Word::Any => next[from..].fill(true),
                word if printed.get(from).is_some_and(|other| is_like(word, other)) => {
                    next[from + 1] = true
                }
                _ => {}
            }
        }
        if !next.contains(&true) {
            let far = (0..=printed.len())
                .filter(|from| reached[*from])
                .max()
                .unwrap_or(0);
            let behind = &shown[at.saturating_sub(6)..at];
            let instead = printed
                .get(far)
                .map_or("nothing".to_owned(), |other| format!("{other:?}"));
            return Some(format!(
                "behind {behind:?} {word:?} is shown, and {instead} printed"
            ));
        }
        reached = next;
    }
    if reached[printed.len()] {
        return None;
    }
    let far = (0..=printed.len())
        .filter(|from| reached[*from])
        .max()
        .unwrap_or(0);
    Some(format!(
        "more is printed than shown: {:?}",
        &printed[far..printed.len().min(far + 8)]
    ))
}

fn is_like(shown: &Word, printed: &Word) -> bool {
    match (shown, printed) {
        (Word::Cut(a), Word::Cut(b)) => a.starts_with(b.as_str()) || b.starts_with(a.as_str()),
        (Word::Cut(cut), Word::Plain(whole)) | (Word::Plain(whole), Word::Cut(cut)) => {
            whole.starts_with(cut.as_str()) || cut.starts_with(whole.as_str())
        }
        (a, b) => a == b,
    }
}

const SIZES: [&str; 8] = ["byte", "bytes", "B", "KiB", "MiB", "GiB", "TiB", "PiB"];

fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for word in text.split_whitespace() {
        let last_is_number = matches!(words.last(), Some(Word::Plain(last)) if last.ends_with('#'));
        words.push(match word {
            "..." | "…" | "[...]" => Word::Any,
            // A figure that is unknown.
            "-" => Word::Plain("#".to_owned()),
            _ => {
                // A time may have any unit, a size may be in bytes.
                let unit = word.trim_end_matches([',', ';', ':', ')', '.']);
                let behind = &word[unit.len()..];
                match unit {
                    "ns" | "µs" | "us" | "ms" | "s" | "min" | "h" if last_is_number => {
                        Word::Plain(format!("s{behind}"))
                    }
                    _ if last_is_number && SIZES.contains(&unit.trim_end_matches("/s")) => {
                        let Some(Word::Plain(last)) = words.last_mut() else {
                            unreachable!("it was looked at")
                        };
                        last.push_str(unit.strip_suffix("/s").map_or("", |_| "/s"));
                        last.push_str(behind);
                        continue;
                    }
                    _ => cut(word).unwrap_or_else(|| Word::Plain(masked(word))),
                }
            }
        });
    }
    words
}

fn cut(word: &str) -> Option<Word> {
    let stem = word
        .strip_suffix('…')
        .or_else(|| word.strip_suffix("..."))?;
    let whole = stem.rsplit_once(',').map_or(stem, |(whole, _)| whole);
    Some(Word::Cut(masked(whole)))
}

/// A word with `#` for each number, size and time in it.
fn masked(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let hash = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if hash >= 16 {
            out.push('#');
            rest = &rest[hash..];
            continue;
        }
        if !first.is_ascii_digit() {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        out.push('#');
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        // 1.5, and 165,000
        while let Some(more) = rest
            .strip_prefix(['.', ','])
            .filter(|more| more.starts_with(|c: char| c.is_ascii_digit()))
        {
            rest = more.trim_start_matches(|c: char| c.is_ascii_digit());
        }
        let letters = rest
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(rest.len());
        match &rest[..letters] {
            "K" | "M" | "G" | "T" => rest = &rest[letters..],
            "ns" | "µs" | "us" | "ms" => rest = &rest[letters - 1..],
            _ => {}
        }
    }
    out
}

#[test]
fn numbers_times_and_what_is_cut_off_may_differ_and_nothing_else() {
    let same = |a: &str, b: &str| assert_eq!(difference(a, b), None, "{a} | {b}");
    same(
        "6 mounts in 0.2 ms and\n27 calls",
        "10 mounts in 2,005.1 ms\nand 1 calls",
    );
    same("took 0.4 µs; more", "took 12 ms; more");
    same("ext4 rw,relatime,d…", "ext4 rw,relatime");
    same("btrfs rw,relatime,d…", "btrfs rw,relatime,s…");
    same(
        "/dev/loop0[/site] 30.0M 0:347",
        "/dev/loop17[/site] 512 8:1",
    );
    same("a ... z", "a z");
    same("a ... z\n...", "a b c z d");
    same("3 462 bytes/s", "3 1.2K/s");
    same(
        "digest 8f87359a519766ca80b3f2c236c9f28b",
        "digest 0123456789abcdef0123456789abcdef",
    );
    same(
        r#"{"digest":"fa245d2496082a6f43b6","x":1}"#,
        r#"{"digest":"ca84d32daf8f0500a1c4bc","x":2}"#,
    );
    same("user - 3.9", "user 1.1 -");
    let other = |a: &str, b: &str| assert!(difference(a, b).is_some(), "{a} | {b}");
    other("6 mounts by search", "6 mounts by mountinfo");
    other("TARGET SOURCE", "TARGET SOURCE FSTYPE");
    other("a ... z", "a b c");
    other("one two", "one");
    other("rw,relatime", "ro,relatime");
    other("12 s", "12");
}
