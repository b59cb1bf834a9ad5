//! Columns that fit the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Where the text of a column stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// At the left.
    Left,
    /// At the right: numbers.
    Right,
}

/// How a row looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    /// Plain.
    #[default]
    Plain,
    /// Set back: what is there but does not count.
    Dim,
    /// Set forth: what is wrong.
    Bad,
}

/// Rows under headings. Cells must be printable (see [`crate::name::printable`]).
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<(Vec<String>, Tone)>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&'static str, Align)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: Vec<String>, tone: Tone) {
        self.rows.push((cells, tone));
    }

    /// The table as text, with a newline at its end. With `width`, the last columns are cut or left out so that no line is
    /// longer; with `color`, headings and tones are shown in it.
    pub fn to_text(&self, width: Option<usize>, color: bool) -> String {
        let mut widths: Vec<usize> = self.columns.iter().map(|(head, _)| head.width()).collect();
        for (cells, _) in &self.rows {
            for (w, cell) in widths.iter_mut().zip(cells) {
                *w = (*w).max(cell.width());
            }
        }
        if let Some(limit) = width {
            fit(&mut widths, limit);
        }
        let mut out = String::new();
        let heads: Vec<&str> = self.columns.iter().map(|(head, _)| *head).collect();
        self.line(&mut out, &heads, &widths, if color { "\x1b[1m" } else { "" });
        for (cells, tone) in &self.rows {
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            let paint = match tone {
                Tone::Dim if color => "\x1b[2m",
                Tone::Bad if color => "\x1b[31m",
                _ => "",
            };
            self.line(&mut out, &cells, &widths, paint);
        }
        out
    }

    fn line(&self, out: &mut String, cells: &[&str], widths: &[usize], paint: &str) {
        let begin = out.len();
        out.push_str(paint);
        for (at, ((cell, &width), (_, align))) in cells.iter().zip(widths).zip(&self.columns).enumerate() {
            if width == 0 {
                continue;
            }
            if at > 0 {
                out.push(' ');
            }
            let cell = cut(cell, width);
            let pad = width.saturating_sub(cell.width());
            if *align == Align::Right {
                out.extend(std::iter::repeat_n(' ', pad));
            }
            out.push_str(&cell);
            if *align == Align::Left {
                out.extend(std::iter::repeat_n(' ', pad));
            }
        }
        out.truncate(begin + out[begin..].trim_end_matches(' ').len());
        if !paint.is_empty() {
            out.push_str("\x1b[0m");
        }
        out.push('\n');
    }
}

/// Makes columns narrower until a line is at most `limit` wide: first the last one, which goes when fewer than eight
/// columns would be left of it, then the widest ones.
fn fit(widths: &mut [usize], limit: usize) {
    const LEAST: usize = 8;
    let total = |widths: &[usize]| widths.iter().filter(|w| **w > 0).map(|w| w + 1).sum::<usize>().saturating_sub(1);
    if let Some(last) = widths.len().checked_sub(1) {
        let over = total(widths).saturating_sub(limit);
        let left = widths[last].saturating_sub(over);
        widths[last] = if over == 0 || left >= LEAST { left } else { 0 };
    }
    while total(widths) > limit {
        let Some(widest) = widths.iter_mut().max().filter(|w| **w > LEAST) else { return };
        *widest -= 1;
    }
}

/// A cell of at most `width` columns; where it was cut, it ends in `…`.
fn cut(cell: &str, width: usize) -> std::borrow::Cow<'_, str> {
    if cell.len() <= width || cell.width() <= width {
        return cell.into();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in cell.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right), ("OPTIONS", Align::Left)]);
        table.row(vec!["/".into(), "1".into(), "rw,relatime,discard".into()], Tone::Plain);
        table.row(vec!["/very/long/name".into(), "1000".into(), "ro".into()], Tone::Bad);
        table
    }

    #[test]
    fn as_wide_as_it_needs() {
        let expected =
            "NAME               N OPTIONS\n/                  1 rw,relatime,discard\n/very/long/name 1000 ro\n";
        assert_eq!(table().to_text(None, false), expected);
    }

    #[test]
    fn no_wider_than_the_terminal() {
        for width in [12, 20, 25, 31, 80] {
            let text = table().to_text(Some(width), false);
            assert!(text.lines().all(|line| line.width() <= width.max(14)), "{width}:\n{text}");
        }
        assert!(table().to_text(Some(31), false).contains("rw,relati…"));
    }
}
