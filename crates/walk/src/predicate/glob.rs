//! Patterns for names and paths, with the rules of fnmatch(3) that find uses: no alternatives; a
//! `[` without a closing bracket is an ordinary character; neither a leading dot nor a slash is
//! special.
//!
//! `?` and brackets match characters if both name and pattern are UTF-8, else bytes, as glibc does
//! in a UTF-8 locale.

/// A pattern that must match a whole name.
#[derive(Clone, Debug)]
pub struct Glob {
    by_character: Option<Vec<Token>>,
    by_byte: Vec<Token>,
    /// Literal end of the pattern, for a fast check; empty if the case of letters is ignored.
    suffix: Vec<u8>,
    folds: bool,
}

#[derive(Clone, Debug)]
enum Token {
    One(u32),
    Any,
    Star,
    Set {
        items: Vec<SetItem>,
        negated: bool,
    },
    /// A backslash at the end of the pattern: nothing matches, as in fnmatch(3).
    Never,
}

#[derive(Clone, Copy, Debug)]
enum SetItem {
    Range(u32, u32),
    Class(CharacterClass),
}

/// Whether a character is in a class.
type CharacterClass = fn(char) -> bool;

impl Glob {
    /// Parses a pattern; with `folds`, the case of letters is ignored.
    pub fn new(pattern: &[u8], folds: bool) -> Glob {
        let by_byte: Vec<u32> = pattern.iter().map(byte_code).collect();
        let text = std::str::from_utf8(pattern);
        let by_character = text.map(|text| parse(&text.chars().map(u32::from).collect::<Vec<_>>()));
        let by_byte = parse(&by_byte);
        let mut suffix = Vec::new();
        for token in by_byte.iter().rev().take_while(|_| !folds) {
            match token {
                Token::One(byte) => suffix.push(*byte as u8),
                _ => break,
            }
        }
        suffix.reverse();
        Glob {
            by_character: by_character.ok(),
            by_byte,
            suffix,
            folds,
        }
    }

    /// The pattern of names that end with `.extension`, ignoring case, after at least one other
    /// character, as in fd.
    pub fn from_extension(extension: &[u8]) -> Glob {
        let start = extension.iter().position(|&b| b != b'.');
        let mut pattern = b"?*.".to_vec();
        for &byte in start.map_or(&b""[..], |start| &extension[start..]) {
            if matches!(byte, b'*' | b'?' | b'[' | b'\\') {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        Glob::new(&pattern, true)
    }

    /// The only matching name, if the pattern has no special characters.
    pub fn literal(&self) -> Option<&[u8]> {
        let is_literal = !self.folds && self.by_byte.len() == self.suffix.len();
        is_literal.then_some(&self.suffix)
    }

    /// Whether the pattern matches the whole name.
    pub fn is_match(&self, name: &[u8]) -> bool {
        if !name.ends_with(&self.suffix) {
            return false;
        }
        if name.is_ascii() {
            let tokens = self.by_character.as_ref().unwrap_or(&self.by_byte);
            return matches(tokens, name, byte_code, self.folds);
        }
        match (&self.by_character, std::str::from_utf8(name)) {
            (Some(tokens), Ok(text)) => {
                let characters: Vec<char> = text.chars().collect();
                matches(tokens, &characters, |&c| c.into(), self.folds)
            }
            _ => matches(&self.by_byte, name, byte_code, self.folds),
        }
    }
}

/// The state of a pattern after the beginning of a text. Texts with a common beginning share the
/// state, so that each byte is read once.
#[derive(Clone, Debug)]
pub struct GlobState {
    /// State by character, as long as both text and pattern are UTF-8.
    by_character: Option<Next>,
    by_byte: Next,
}

impl Glob {
    /// The state before the first character.
    pub fn begin(&self) -> GlobState {
        let next = |tokens: &Vec<Token>| {
            let mut next = Next::default();
            next.add(tokens, 0);
            next
        };
        GlobState {
            by_character: self.by_character.as_ref().map(next),
            by_byte: next(&self.by_byte),
        }
    }

    /// Reads more of the text. A text may be split only next to ASCII characters.
    pub fn advance(&self, reached: &mut GlobState, text: &[u8]) {
        reached.by_character = self.by_character_after(reached, text);
        let codes = text.iter().map(byte_code);
        reached.by_byte.advance(&self.by_byte, codes, self.folds);
    }

    fn by_character_after(&self, reached: &GlobState, text: &[u8]) -> Option<Next> {
        let (tokens, mut next) = (self.by_character.as_ref()?, reached.by_character.clone()?);
        let codes = std::str::from_utf8(text).ok()?.chars().map(u32::from);
        next.advance(tokens, codes, self.folds);
        Some(next)
    }

    /// Whether the pattern matches a whole text that ends with `text` after the state `reached`.
    pub fn is_match_from(&self, reached: &GlobState, text: &[u8]) -> bool {
        if let Some(next) = self.by_character_after(reached, text) {
            return next.is_end(self.by_character.as_ref().unwrap_or(&self.by_byte));
        }
        let (tokens, mut next) = (&self.by_byte, reached.by_byte.clone());
        next.advance(tokens, text.iter().map(byte_code), self.folds);
        next.is_end(tokens)
    }

    /// The literal end of the pattern.
    pub fn suffix(&self) -> &[u8] {
        &self.suffix
    }
}

/// The indices of tokens that may match next, ascending. Tokens before the last star do not matter.
#[derive(Clone, Debug, Default)]
struct Next(Vec<usize>);

#[cfg(test)]
thread_local! {
    /// Counts how many characters and bytes were read, over all patterns.
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Next {
    fn add(&mut self, tokens: &[Token], at: usize) {
        if self.0.last().is_some_and(|last| *last >= at) {
            return;
        }
        if matches!(tokens.get(at), Some(Token::Star)) {
            self.0.clear();
            self.0.push(at);
            self.0.push(at + 1);
        } else {
            self.0.push(at);
        }
    }

    fn advance(&mut self, tokens: &[Token], codes: impl Iterator<Item = u32>, folds: bool) {
        let mut before = Vec::new();
        for code in codes {
            if self.0.is_empty() {
                return;
            }
            #[cfg(test)]
            STEPS.with(|steps| steps.set(steps.get() + 1));
            std::mem::swap(&mut before, &mut self.0);
            self.0.clear();
            for &at in &before {
                match tokens.get(at) {
                    Some(Token::Star) => self.add(tokens, at),
                    Some(token) if token.accepts(code, folds) => self.add(tokens, at + 1),
                    _ => {}
                }
            }
        }
    }

    fn is_end(&self, tokens: &[Token]) -> bool {
        self.0.last() == Some(&tokens.len())
    }
}

/// An ASCII byte as a character, any other as a code that is no character: without case or class.
fn byte_code(&byte: &u8) -> u32 {
    match byte.is_ascii() {
        true => byte.into(),
        false => 0xd800 + u32::from(byte),
    }
}

fn parse(pattern: &[u32]) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), pattern);
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        let token = match char::from_u32(first) {
            Some('*') if matches!(tokens.last(), Some(Token::Star)) => continue,
            Some('*') => Token::Star,
            Some('?') => Token::Any,
            Some('\\') => match rest.split_off_first() {
                Some(&next) => Token::One(next),
                None => Token::Never,
            },
            Some('[') => match set(rest) {
                Some((set, tail)) => {
                    rest = tail;
                    set
                }
                None => Token::One(first),
            },
            _ => Token::One(first),
        };
        tokens.push(token);
    }
    tokens
}

const fn code(c: char) -> u32 {
    c as u32
}

/// Parses a bracket expression after its `[`; returns it and the rest. `None` if it is not closed.
fn set(pattern: &[u32]) -> Option<(Token, &[u32])> {
    let negated = matches!(pattern.first(), Some(&c) if c == code('!') || c == code('^'));
    let mut rest = &pattern[usize::from(negated)..];
    let (mut items, mut is_first) = (Vec::new(), true);
    loop {
        let c = *rest.split_off_first()?;
        if c == code(']') && !is_first {
            return Some((Token::Set { items, negated }, rest));
        }
        is_first = false;
        if c == code('[')
            && rest.first() == Some(&code(':'))
            && let Some((class, tail)) = class(rest)
        {
            items.push(SetItem::Class(class));
            rest = tail;
            continue;
        }
        let low = element(c, &mut rest)?;
        let is_range = matches!(rest, [dash, end, ..] if *dash == code('-') && *end != code(']'));
        if !is_range {
            items.push(SetItem::Range(low, low));
            continue;
        }
        rest.split_off_first();
        let end = *rest.split_off_first()?;
        let high = element(end, &mut rest)?;
        items.push(SetItem::Range(low, high));
    }
}

/// Parses a character of a bracket expression: plain, after a backslash, or as `[.x.]` or `[=x=]`.
fn element(c: u32, rest: &mut &[u32]) -> Option<u32> {
    if c == code('\\') {
        return rest.split_off_first().copied();
    }
    if c == code('[')
        && let [mark, inner, again, end, tail @ ..] = *rest
        && (*mark == code('.') || *mark == code('='))
        && (*again, *end) == (*mark, code(']'))
    {
        *rest = tail;
        return Some(*inner);
    }
    Some(c)
}

/// Parses a class such as `:alpha:]`; returns it and the rest.
fn class(pattern: &[u32]) -> Option<(CharacterClass, &[u32])> {
    let end = pattern
        .windows(2)
        .skip(1)
        .position(|pair| pair == [code(':'), code(']')])?;
    let name = pattern[1..=end].iter().map(|&c| char::from_u32(c));
    let class: CharacterClass = match &name.collect::<Option<String>>()?[..] {
        "alnum" => char::is_alphanumeric,
        "alpha" => char::is_alphabetic,
        "blank" => |c| matches!(c, ' ' | '\t'),
        "cntrl" => char::is_control,
        "digit" => |c| c.is_ascii_digit(),
        "graph" => |c| !c.is_control() && !c.is_whitespace(),
        "lower" => char::is_lowercase,
        "print" => |c| !c.is_control(),
        "punct" => |c| !c.is_alphanumeric() && !c.is_control() && !c.is_whitespace(),
        "space" => char::is_whitespace,
        "upper" => char::is_uppercase,
        "xdigit" => |c| c.is_ascii_hexdigit(),
        _ => return None,
    };
    Some((class, &pattern[end + 3..]))
}

/// Matches without recursion, in constant space: after a mismatch, the last star takes one more
/// character.
fn matches<T>(tokens: &[Token], name: &[T], code: impl Fn(&T) -> u32, folds: bool) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    loop {
        match tokens.get(at) {
            Some(Token::Star) => {
                star = Some((at + 1, from));
                at += 1;
                if at == tokens.len() {
                    return true;
                }
                continue;
            }
            Some(token) if from < name.len() && token.accepts(code(&name[from]), folds) => {
                (at, from) = (at + 1, from + 1);
                continue;
            }
            None if from == name.len() => return true,
            _ => {}
        }
        match &mut star {
            Some((after, begin)) if *begin < name.len() => {
                *begin += 1;
                (at, from) = (*after, *begin);
            }
            _ => return false,
        }
    }
}

impl Token {
    fn accepts(&self, c: u32, folds: bool) -> bool {
        match self {
            Token::One(one) => c == *one || folds && fold(c) == fold(*one),
            Token::Any => true,
            Token::Set { items, negated } => {
                let has = |c: u32| items.iter().any(|item| item.has(c, folds));
                (has(c) || folds && has(fold(c))) != *negated
            }
            Token::Star | Token::Never => false,
        }
    }
}

/// The lower case of a character, if that is a single character.
pub(crate) fn fold(c: u32) -> u32 {
    let Some(c) = char::from_u32(c) else { return c };
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one.into(),
        _ => c.into(),
    }
}

impl SetItem {
    fn has(self, c: u32, folds: bool) -> bool {
        match self {
            SetItem::Range(low, high) if folds => (fold(low)..=fold(high)).contains(&c),
            SetItem::Range(low, high) => (low..=high).contains(&c),
            SetItem::Class(class) => char::from_u32(c).is_some_and(class),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    fn is_match(pattern: &str, name: &[u8]) -> bool {
        Glob::new(pattern.as_bytes(), false).is_match(name)
    }

    #[test]
    fn patterns_match_as_with_fnmatch() {
        for (pattern, yes, no) in [
            (
                "*.txt",
                &["a.txt", ".txt", "\n.txt"][..],
                &["a.txt2", "txt"][..],
            ),
            ("a*b*c", &["abc", "aXbYc", "abbcc"], &["ab", "acb"]),
            ("?", &["a", "é", "\n"], &["", "ab"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x"]),
            ("[!a-c]", &["d", "é"], &["a", ""]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[[:digit:]_]*", &["1", "_x"], &["x1"]),
            ("[", &["["], &["a"]),
            ("[a", &["[a"], &["a"]),
            ("a[", &["a["], &["a"]),
            ("\\*", &["*"], &["a", "\\*"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[[.-.]a]", &["-", "a"], &["."]),
            ("{a,b}", &["{a,b}"], &["a", "b"]),
            ("a\\", &[], &["a", "a\\"]),
            ("", &[""], &["a"]),
            ("**", &["", "a"], &[]),
        ] {
            for name in yes {
                assert!(is_match(pattern, name.as_bytes()), "{pattern} {name:?}");
            }
            for name in no {
                assert!(!is_match(pattern, name.as_bytes()), "{pattern} {name:?}");
            }
        }
        assert!(is_match("?", b"\xff") && !is_match("?", b"\xff\xff"));
        assert!(is_match("*\u{e9}", b"\xff\xc3\xa9"));
        assert!(!is_match("*[[:space:]]*", b"\xff\x85\xa0"));
    }

    #[test]
    fn folded_patterns_match_either_case() {
        let glob = Glob::new("*.[a-c]É".as_bytes(), true);
        assert!(glob.is_match("x.Bé".as_bytes()) && !glob.is_match(b"x.de"));
        let glob = Glob::from_extension(b".tar.gz");
        assert!(glob.is_match(b"a.TAR.gz") && !glob.is_match(b".tar.gz"));
        assert!(Glob::from_extension(b"a*").is_match(b"x.A*"));
    }
}
