//! Columns that fit the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::html::escape;

/// Columns that a cell takes.
fn columns(cell: &str) -> usize {
    if cell.is_ascii() {
        cell.len()
    } else {
        cell.width()
    }
}

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

impl Tone {
    /// Its class in pages.
    pub fn class(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Dim => "dim",
            Tone::Bad => "bad",
        }
    }
}

/// How tables, and what stands around them, are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableStyle {
    /// Columns that there is room for; `None` for as many as it takes.
    pub width: Option<usize>,
    /// Whether to draw the tree that mount points make.
    pub tree: bool,
    /// Whether to show headings and tones in colour.
    pub color: bool,
}

impl TableStyle {
    /// A heading: a line.
    pub fn heading(self, text: &str) -> String {
        if self.color {
            format!("\x1b[1m{text}\x1b[0m\n")
        } else {
            format!("{text}\n")
        }
    }

    /// Text, broken into lines for which there is room.
    pub fn wrapped(self, text: &str) -> String {
        wrap(text, self.width.unwrap_or(usize::MAX)) + "\n"
    }
}

/// Rows under headings. Cells must be printable (see [`crate::name::printable`]).
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align)>,
    /// The text of all cells, and where each ends.
    text: String,
    ends: Vec<usize>,
    tones: Vec<Tone>,
    widths: Vec<usize>,
    /// The widest cell of each column, its heading aside.
    cells: Vec<usize>,
}

impl Table {
    /// A table without rows, with room for some.
    pub fn new(heads: &[(impl AsRef<str>, Align)], rows: usize) -> Table {
        const LINE: usize = 100;
        Table {
            columns: heads
                .iter()
                .map(|(head, align)| (head.as_ref().to_owned(), *align))
                .collect(),
            text: String::with_capacity(rows * LINE),
            ends: Vec::with_capacity(rows * heads.len()),
            tones: Vec::with_capacity(rows),
            widths: heads
                .iter()
                .map(|(head, _)| columns(head.as_ref()))
                .collect(),
            cells: vec![0; heads.len()],
        }
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>, tone: Tone) {
        for ((cell, width), widest) in cells.into_iter().zip(&mut self.widths).zip(&mut self.cells)
        {
            *widest = (*widest).max(columns(cell.as_ref()));
            *width = (*width).max(*widest);
            self.text.push_str(cell.as_ref());
            self.ends.push(self.text.len());
        }
        self.tones.push(tone);
    }

    /// Adds a row whose last cell is a sentence, in as many lines as it takes where the columns
    /// before it take `before`; and no fewer than twenty columns are left for it.
    pub fn row_with_reason<const N: usize>(
        &mut self,
        cells: [&str; N],
        reason: &str,
        before: usize,
        style: TableStyle,
    ) {
        let room = style
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(before).max(20));
        for (at, line) in wrap(reason, room).lines().enumerate() {
            let cells = if at == 0 { cells } else { [""; N] };
            self.row(cells.into_iter().chain([line]), Tone::Plain);
        }
    }

    /// The table as text, with a newline at its end. With `width`, text and headings are cut, and a
    /// last column of text left out, so that no line is longer; numbers never are, and a table that
    /// has more of them than there is room for is wider. With `color`, headings and tones are shown
    /// in it.
    pub fn to_text(&self, width: Option<usize>, color: bool) -> String {
        let mut text = String::new();
        self.write(width, color, &mut |piece| text.push_str(piece));
        text
    }

    /// [`Table::to_text`], piece by piece: a long table need not be in memory as text as well.
    pub fn write(&self, width: Option<usize>, color: bool, put: &mut dyn FnMut(&str)) {
        const PIECE: usize = 32 << 10;
        let mut widths = self.widths.clone();
        if let Some(limit) = width {
            let text = |(_, align): &(String, Align)| *align == Align::Left;
            let least: Vec<Option<usize>> = self
                .columns
                .iter()
                .zip(&self.cells)
                .map(|(column, &cell)| (!text(column)).then_some(cell))
                .collect();
            fit(&mut widths, &least, limit);
        }
        let mut out = String::with_capacity(self.text.len().min(PIECE) * 2);
        self.line(
            &mut out,
            self.columns.iter().map(|(head, _)| &head[..]),
            &widths,
            if color { "\x1b[1m" } else { "" },
        );
        for (cells, tone) in self.rows() {
            let paint = match tone {
                Tone::Dim if color => "\x1b[2m",
                Tone::Bad if color => "\x1b[31m",
                _ => "",
            };
            self.line(&mut out, cells, &widths, paint);
            if out.len() >= PIECE {
                put(&out);
                out.clear();
            }
        }
        put(&out);
    }

    /// The cells of each row, and how it looks.
    fn rows(&self) -> impl Iterator<Item = (impl Iterator<Item = &str>, Tone)> {
        let cell = |at: usize| {
            let from = at
                .checked_sub(1)
                .and_then(|before| self.ends.get(before))
                .copied()
                .unwrap_or(0);
            self.ends
                .get(at)
                .and_then(|&end| self.text.get(from..end))
                .unwrap_or_default()
        };
        let columns = self.columns.len();
        self.tones
            .iter()
            .enumerate()
            .map(move |(row, tone)| ((row * columns..(row + 1) * columns).map(cell), *tone))
    }

    /// The table as HTML, under a caption; the heading of a row is its first cell with words.
    pub fn to_html(&self, caption: &str) -> String {
        let head = self
            .columns
            .iter()
            .position(|(_, align)| *align == Align::Left)
            .unwrap_or(0);
        const LONG: usize = 48;
        let class = |align: Align, width: usize| match align {
            Align::Left if width > LONG => " class=\"left long\"",
            Align::Left => " class=\"left\"",
            Align::Right => "",
        };
        let columns = || self.columns.iter().zip(&self.widths);
        let mut out = format!(
            "<table>\n<caption>{}</caption>\n<thead><tr>",
            escape(caption)
        );
        for ((head, align), width) in columns() {
            out.push_str(&format!(
                "<th scope=\"col\"{}>{}</th>",
                class(*align, *width),
                escape(head)
            ));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for (cells, tone) in self.rows() {
            out.push_str(&match tone.class() {
                "" => "<tr>".to_owned(),
                class => format!("<tr class=\"{class}\">"),
            });
            for (at, (cell, ((_, align), width))) in cells.zip(columns()).enumerate() {
                let (begin, end) = if at == head {
                    ("<th scope=\"row\"", "</th>")
                } else {
                    ("<td", "</td>")
                };
                out.push_str(&format!(
                    "{begin}{}>{}{end}",
                    class(*align, *width),
                    escape(cell)
                ));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n");
        out
    }

    fn line<'a>(
        &self,
        out: &mut String,
        cells: impl Iterator<Item = &'a str>,
        widths: &[usize],
        paint: &str,
    ) {
        out.push_str(paint);
        // Blanks are owed until something follows them, so that none stand at the end of a line.
        let mut owed = 0;
        for (at, ((cell, &width), (_, align))) in cells.zip(widths).zip(&self.columns).enumerate() {
            if width == 0 {
                continue;
            }
            owed += usize::from(at > 0);
            let cell = cut(cell, width);
            let pad = width.saturating_sub(columns(&cell));
            if *align == Align::Right {
                owed += pad;
            }
            if !cell.is_empty() {
                blanks(out, std::mem::take(&mut owed));
                out.push_str(&cell);
            }
            if *align == Align::Left {
                owed += pad;
            }
        }
        if !paint.is_empty() {
            out.push_str("\x1b[0m");
        }
        out.push('\n');
    }
}

/// Breaks text into lines of at most `width` columns, between words.
pub fn wrap(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut used = 0;
    for word in text.split(' ') {
        let wide = columns(word);
        if used > 0 && used + 1 + wide > width {
            out.push('\n');
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += wide;
    }
    out
}

fn blanks(out: &mut String, mut n: usize) {
    const BLANKS: &str = "                                                                ";
    while n > 0 {
        let some = n.min(BLANKS.len());
        out.push_str(&BLANKS[..some]);
        n -= some;
    }
}

/// Makes columns narrower until a line is at most `limit` wide: first the last one, if it is text;
/// it goes when fewer than eight columns would be left of it. Then the widest ones: text to eight
/// columns, numbers to what `least` says that they take.
fn fit(widths: &mut [usize], least: &[Option<usize>], limit: usize) {
    const LEAST: usize = 8;
    let total = |widths: &[usize]| {
        widths
            .iter()
            .filter(|w| **w > 0)
            .map(|w| w + 1)
            .sum::<usize>()
            .saturating_sub(1)
    };
    if let Some(last) = widths
        .len()
        .checked_sub(1)
        .filter(|last| least.get(*last) == Some(&None))
    {
        let over = total(widths).saturating_sub(limit);
        let left = widths[last].saturating_sub(over);
        widths[last] = if over == 0 || left >= LEAST { left } else { 0 };
    }
    while total(widths) > limit {
        let narrower = widths
            .iter_mut()
            .zip(least)
            .filter(|(width, least)| **width > least.unwrap_or(LEAST).max(1));
        let Some((widest, _)) = narrower.max_by_key(|(width, _)| **width) else {
            return;
        };
        *widest -= 1;
    }
}

/// A cell of at most `width` columns; where it was cut, it ends in `…`.
fn cut(cell: &str, width: usize) -> std::borrow::Cow<'_, str> {
    if cell.len() <= width || columns(cell) <= width {
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
        let mut table = Table::new(
            &[
                ("NAME", Align::Left),
                ("N", Align::Right),
                ("OPTIONS", Align::Left),
            ],
            2,
        );
        table.row(["/", "1", "rw,relatime,discard"], Tone::Plain);
        table.row(["/very/long/name", "1000", "ro"], Tone::Bad);
        table
    }

    #[test]
    fn as_wide_as_it_needs() {
        let expected = "NAME               N OPTIONS\n/                  1 rw,relatime,discard\n/very/long/name 1000 ro\n";
        assert_eq!(table().to_text(None, false), expected);
    }

    #[test]
    fn a_page_has_its_headings_and_nothing_of_a_cell_is_markup() {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right)], 2);
        table.row(["<b>&", "1"], Tone::Plain);
        table.row(["c", "2"], Tone::Bad);
        let expected = "<table>\n<caption>a &lt; b</caption>\n<thead><tr><th scope=\"col\" class=\"left\">NAME</th>\
                        <th scope=\"col\">N</th></tr></thead>\n<tbody>\n\
                        <tr><th scope=\"row\" class=\"left\">&lt;b&gt;&amp;</th><td>1</td></tr>\n\
                        <tr class=\"bad\"><th scope=\"row\" class=\"left\">c</th><td>2</td></tr>\n</tbody>\n</table>\n";
        assert_eq!(table.to_html("a < b"), expected);
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrap("a bc def ghij", 6), "a bc\ndef\nghij");
        assert_eq!(wrap("toolongforit x", 4), "toolongforit\nx");
    }

    #[test]
    fn no_wider_than_the_terminal() {
        for width in [12, 20, 25, 31, 80] {
            let text = table().to_text(Some(width), false);
            assert!(
                text.lines().all(|line| line.width() <= width.max(14)),
                "{width}:\n{text}"
            );
        }
        assert!(table().to_text(Some(31), false).contains("rw,relati…"));
    }

    #[test]
    fn numbers_are_there_whatever_the_width() {
        let mut table = Table::new(
            &[
                ("SYSTEM", Align::Left),
                ("a long heading", Align::Right),
                ("ratio", Align::Right),
            ],
            1,
        );
        table.row(["web1.example.org", "1234567890.12", "7.38"], Tone::Plain);
        let narrow = "SYSTEM   a long headi… rat…\nweb1.ex… 1234567890.12 7.38\n";
        assert_eq!(table.to_text(Some(27), false), narrow);
        assert!(
            table
                .to_text(Some(9), false)
                .ends_with("1234567890.12 7.38\n")
        );
    }
}
