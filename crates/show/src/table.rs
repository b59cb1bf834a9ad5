//! Columns that fit the terminal.

use unicode_width::UnicodeWidthStr;

use crate::html::escape;

/// The width of a cell in terminal columns.
fn columns(cell: &str) -> usize {
    if cell.is_ascii() {
        cell.len()
    } else {
        cell.width()
    }
}

/// The alignment of a column. Numbers are right-aligned and never truncated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Align {
    Left,
    Right,
}

/// The heads of the columns of a table, with their alignment: `<` is left and `>` right, as in
/// format strings.
#[macro_export]
macro_rules! columns {
    (@ <) => {
        $crate::table::Align::Left
    };
    (@ >) => {
        $crate::table::Align::Right
    };
    ($($align:tt $head:expr),+) => {
        [$(($head, $crate::columns!(@ $align))),+]
    };
}

/// The colour of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RowColour {
    #[default]
    Plain,
    /// Dimmed, for a row that matters less, such as a hidden mount.
    Dim,
    /// Red, for a row that reports a fault.
    Bad,
}

impl RowColour {
    /// The CSS class of the colour.
    pub fn class(self) -> &'static str {
        match self {
            RowColour::Plain => "",
            RowColour::Dim => "dim",
            RowColour::Bad => "bad",
        }
    }
}

/// The style of tables and of the text around them.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableStyle {
    /// Width of the terminal in columns; `None` for no limit.
    pub width: Option<usize>,
    /// Whether to draw the tree of mount points.
    pub tree: bool,
    /// Whether to show headings and rows in colour.
    pub color: bool,
}

impl TableStyle {
    /// A heading as a line.
    pub fn heading(self, text: &str) -> String {
        if self.color {
            format!("\x1b[1m{text}\x1b[0m\n")
        } else {
            format!("{text}\n")
        }
    }

    /// Text, wrapped between words.
    pub fn wrapped(self, text: &str) -> String {
        wrap(text, self.width.unwrap_or(usize::MAX)) + "\n"
    }

    /// An item of a list, wrapped between words, with further lines indented below the first.
    pub fn item(self, text: &str) -> String {
        const MARK: &str = "- ";
        const INDENT: &str = "  ";
        let room = |width: usize| width.saturating_sub(MARK.len());
        let room = self.width.map_or(usize::MAX, room);
        let mut out = String::with_capacity(text.len() + MARK.len() + 1);
        for (at, line) in wrap(text, room).lines().enumerate() {
            out.push_str(if at == 0 { MARK } else { INDENT });
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}

/// Rows under headings. Cells must be printable (see [`crate::name::printable`]).
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align)>,
    /// The number of columns from the left that are essential.
    kept: usize,
    /// The column that identifies the row; the first text column if `None`.
    identifying: Option<usize>,
    /// The text of all cells, each of which ends at an offset in `ends`.
    text: String,
    ends: Vec<usize>,
    tones: Vec<RowColour>,
    widths: Vec<usize>,
}

impl Table {
    /// An empty table with capacity for rows.
    pub fn new(heads: &[(impl AsRef<str>, Align)], rows: usize) -> Table {
        const LINE: usize = 100;
        let heads = heads
            .iter()
            .map(|(head, align)| (head.as_ref().to_owned(), *align));
        let heads: Vec<_> = heads.collect();
        Table {
            text: String::with_capacity(rows * LINE),
            ends: Vec::with_capacity(rows * heads.len()),
            tones: Vec::with_capacity(rows),
            widths: heads.iter().map(|(head, _)| columns(head)).collect(),
            columns: heads,
            kept: 0,
            identifying: None,
        }
    }

    /// Declares the column that identifies the row: it is shortened in the middle, and never
    /// omitted.
    pub fn identify_by(&mut self, column: usize) {
        self.identifying = Some(column);
    }

    /// Declares the first columns essential: before an essential column is omitted, the column that
    /// identifies the row is shortened further.
    pub fn keep(&mut self, columns: usize) {
        self.kept = columns;
    }

    /// A table of plain rows.
    pub fn from_rows<const N: usize>(
        heads: &[(&str, Align); N],
        rows: impl IntoIterator<Item = [impl AsRef<str>; N]>,
    ) -> Table {
        let mut table = Table::new(heads, 0);
        rows.into_iter()
            .for_each(|row| table.row(row, RowColour::Plain));
        table
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.tones.is_empty()
    }

    /// Makes the columns wide enough for a row that is not stored: see [`Table::write_rows`].
    pub fn measure(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        for (cell, width) in cells.into_iter().zip(&mut self.widths) {
            *width = (*width).max(columns(cell.as_ref()));
        }
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>, tone: RowColour) {
        for (cell, width) in cells.into_iter().zip(&mut self.widths) {
            *width = (*width).max(columns(cell.as_ref()));
            self.text.push_str(cell.as_ref());
            self.ends.push(self.text.len());
        }
        self.tones.push(tone);
    }

    /// Adds a row whose last cell is a sentence, which is wrapped into several rows if necessary.
    /// `before` is the width of the other columns; the sentence gets the rest of the terminal, at
    /// least twenty columns.
    pub fn row_with_reason<const N: usize>(
        &mut self,
        cells: [&str; N],
        reason: &str,
        before: usize,
        style: TableStyle,
    ) {
        let room = |width: usize| width.saturating_sub(before).max(20);
        let room = style.width.map_or(usize::MAX, room);
        for (at, line) in wrap(reason, room).lines().enumerate() {
            let cells = if at == 0 { cells } else { [""; N] };
            self.row(cells.into_iter().chain([line]), RowColour::Plain);
        }
    }

    /// The table as text, with a final newline. If a line would be longer than `width`, text is
    /// shortened, then columns are omitted from the right. The first text column identifies the
    /// row, unless [`Table::identify_by`] names another one: it is never omitted, and keeps half of the width. Columns of numbers are never
    /// shortened.
    pub fn to_text(&self, width: Option<usize>, color: bool) -> String {
        let mut text = String::new();
        self.write(width, color, &mut |piece| text.push_str(piece));
        text
    }

    /// [`Table::to_text`] piece by piece, so that a long table is not held in memory.
    pub fn write(&self, width: Option<usize>, color: bool, put: &mut dyn FnMut(&str)) {
        self.write_rows(self.rows(), width, color, put);
    }

    /// [`Table::write`] with rows that were only [measured](Table::measure), because the cells of a
    /// long table take much memory.
    pub fn write_rows<S: AsRef<str>>(
        &self,
        rows: impl Iterator<Item = (impl Iterator<Item = S>, RowColour)>,
        width: Option<usize>,
        color: bool,
        put: &mut dyn FnMut(&str),
    ) {
        const PIECE: usize = 32 << 10;
        let widths = self.fitted(width);
        let mut out = String::with_capacity(self.text.len().min(PIECE) * 2);
        self.line(
            &mut out,
            self.columns.iter().map(|(head, _)| &head[..]),
            &widths,
            if color { "\x1b[1m" } else { "" },
        );
        for (cells, tone) in rows {
            let paint = match tone {
                RowColour::Dim if color => "\x1b[2m",
                RowColour::Bad if color => "\x1b[31m",
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

    /// The number of columns that [`Table::to_text`] omits at this width.
    pub fn omitted_columns(&self, width: Option<usize>) -> usize {
        self.fitted(width).iter().filter(|it| **it == 0).count()
    }

    /// The widths of the columns in output of this width; 0 for an omitted column.
    fn fitted(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths = self.widths.clone();
        if let Some(limit) = width {
            let aligns: Vec<Align> = self.columns.iter().map(|(_, align)| *align).collect();
            fit(&mut widths, &aligns, (self.key(), self.kept), limit);
        }
        widths
    }

    fn key(&self) -> usize {
        let is_text = |(_, align): &(String, Align)| *align == Align::Left;
        let first = || self.columns.iter().position(is_text);
        self.identifying.or_else(first).unwrap_or(0)
    }

    fn rows(&self) -> impl Iterator<Item = (impl Iterator<Item = &str>, RowColour)> {
        let end = |at: usize| self.ends.get(at).copied().unwrap_or(self.text.len());
        let cell = move |at: usize| {
            let from = if at == 0 { 0 } else { end(at - 1) };
            &self.text[from..end(at)]
        };
        let columns = self.columns.len();
        let cells = move |row: usize| (row * columns..(row + 1) * columns).map(cell);
        let rows = (0..).zip(&self.tones);
        rows.map(move |(row, tone)| (cells(row), *tone))
    }

    /// The table as HTML with a caption; the heading of a row is its first cell with words.
    pub fn to_html(&self, caption: &str) -> String {
        const LONG: usize = 48;
        let head = self.key();
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
            let (class, head) = (class(*align, *width), escape(head));
            out += &format!("<th scope=\"col\"{class}>{head}</th>");
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
                let (class, cell) = (class(*align, *width), escape(cell));
                out += &format!("{begin}{class}>{cell}{end}");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n");
        out
    }

    fn line<S: AsRef<str>>(
        &self,
        out: &mut String,
        cells: impl Iterator<Item = S>,
        widths: &[usize],
        paint: &str,
    ) {
        out.push_str(paint);
        let key = self.key();
        // Write blanks only before further text, so that no line ends with blanks.
        let mut owed = 0;
        let shown = cells.zip(widths).zip(&self.columns).enumerate();
        let shown = shown.filter(|(_, ((_, width), _))| **width > 0);
        for (nth, (at, ((cell, &width), (_, align)))) in shown.enumerate() {
            owed += usize::from(nth > 0);
            let cell = match at == key {
                true => cut_middle(cell.as_ref(), width),
                false => cut(cell.as_ref(), width),
            };
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

/// Wraps text into lines of at most `width` columns.
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

/// Appends `n` blanks, faster than one by one.
fn blanks(out: &mut String, mut n: usize) {
    const BLANKS: &str = "                                                                ";
    while n > 0 {
        let some = n.min(BLANKS.len());
        out.push_str(&BLANKS[..some]);
        n -= some;
    }
}

/// Narrows columns until a line is at most `limit` wide: first the last column if it contains text,
/// then the widest text column. A column keeps at least eight characters, the `key` column at least
/// half of the limit. Then columns are omitted from the right. Before one of the first `kept`
/// columns is omitted, the `key` column is shortened to sixteen characters.
fn fit(widths: &mut [usize], aligns: &[Align], (key, kept): (usize, usize), limit: usize) {
    const LEAST: usize = 8;
    const LEAST_KEY: usize = 16;
    let full = widths.to_vec();
    let mut least_key = limit / 2;
    let floor = |at: usize, least_key: usize| match aligns[at] {
        _ if at == key => full[at].min(least_key),
        Align::Right => full[at],
        Align::Left => full[at].min(LEAST),
    };
    let total = |widths: &[usize]| {
        let shown = widths.iter().filter(|width| **width > 0);
        shown
            .map(|width| width + 1)
            .sum::<usize>()
            .saturating_sub(1)
    };
    let over = total(widths).saturating_sub(limit);
    let last = widths.len() - 1;
    if over > 0 && last != key && aligns[last] == Align::Left {
        let left = widths[last].saturating_sub(over);
        widths[last] = if left >= floor(last, least_key) {
            left
        } else {
            0
        };
    }
    loop {
        while total(widths) > limit {
            let is_wide = |at: &usize| widths[*at] > floor(*at, least_key).max(1);
            let Some(widest) = (0..=last).filter(is_wide).max_by_key(|at| widths[*at]) else {
                break;
            };
            widths[widest] -= 1;
        }
        let omitted = (0..=last).rfind(|at| *at != key && widths[*at] > 0);
        match omitted.filter(|_| total(widths) > limit) {
            Some(at) if at < kept && least_key > LEAST_KEY => least_key = LEAST_KEY,
            Some(at) => widths[at] = 0,
            None => break,
        }
        for (at, width) in widths
            .iter_mut()
            .enumerate()
            .filter(|(_, width)| **width > 0)
        {
            *width = full[at];
        }
    }
    widths[key] = widths[key].min(limit.max(1));
}

/// A cell truncated to `width` columns; a truncated one ends in `…`.
pub fn cut(cell: &str, width: usize) -> std::borrow::Cow<'_, str> {
    if cell.len() <= width || columns(cell) <= width {
        return cell.into();
    }
    // A character can change the width of the one before it: U+FE0F makes an emoji of a digit.
    let ends = cell.char_indices().map(|(at, c)| at + c.len_utf8());
    let fitting = ends.take_while(|end| columns(&cell[..*end]) < width);
    let end = fitting.last().unwrap_or(0);
    format!("{}…", &cell[..end]).into()
}

/// A cell truncated in the middle, because paths often differ at their ends.
fn cut_middle(cell: &str, width: usize) -> std::borrow::Cow<'_, str> {
    if cell.len() <= width || columns(cell) <= width {
        return cell.into();
    }
    let begin = cut(cell, width.div_ceil(3));
    let room = width - columns(&begin);
    let starts = cell.char_indices().rev().map(|(from, _)| from);
    let fitting = starts.take_while(|from| columns(&cell[*from..]) <= room);
    let from = fitting.last().unwrap_or(cell.len());
    format!("{begin}{}", &cell[from..]).into()
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
        table.row(["/", "1", "rw,relatime,discard"], RowColour::Plain);
        table.row(["/very/long/name", "1000", "ro"], RowColour::Bad);
        table
    }

    #[test]
    fn emoji_sequences_are_cut_by_their_width() {
        let cell = "a8\u{fe0f}8\u{fe0f}8\u{fe0f}8\u{fe0f}b";
        for width in 1..12 {
            for text in [cut(cell, width), cut_middle(cell, width)] {
                assert!(columns(&text) <= width, "{width}: {text}");
            }
        }
        assert_eq!(cut(cell, 4), "a8\u{fe0f}…");
    }

    #[test]
    fn what_follows_wide_and_combining_characters_lines_up() {
        let names = ["plain", "\u{6f22}\u{5b57}", "e\u{301}", "\u{1f600}!"];
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right)], 2);
        for name in names {
            table.row([name, "7"], RowColour::Plain);
        }
        let text = table.to_text(None, false);
        let places = text.lines().skip(1).map(|line| columns(line.trim_end()));
        assert!(places.eq([7; 4]), "{text}");
    }

    #[test]
    fn as_wide_as_it_needs() {
        let expected = "NAME               N OPTIONS\n/                  1 rw,relatime,discard\n/very/long/name 1000 ro\n";
        assert_eq!(table().to_text(None, false), expected);
    }

    #[test]
    fn a_page_has_its_headings_and_nothing_of_a_cell_is_markup() {
        let mut table = Table::new(&[("NAME", Align::Left), ("N", Align::Right)], 2);
        table.row(["<b>&", "1"], RowColour::Plain);
        table.row(["c", "2"], RowColour::Bad);
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
    fn no_line_is_wider_than_the_terminal() {
        for width in 1..80 {
            let text = table().to_text(Some(width), false);
            assert!(
                text.lines().all(|line| line.width() <= width),
                "{width}:\n{text}"
            );
        }
        assert!(table().to_text(Some(31), false).contains("rw,relati…"));
    }

    #[test]
    fn kept_columns_are_omitted_last() {
        let heads = [
            ("TARGET", Align::Left),
            ("HIDDEN FILES", Align::Right),
            ("HIDDEN SIZE", Align::Right),
            ("SOURCE", Align::Left),
        ];
        let row = [
            "/srv/mail/archive/2023/november/inbox",
            "12",
            "30 MiB",
            "/dev/sda1",
        ];
        let mut table = Table::from_rows(&heads, [row]);
        for (kept, head) in [
            (0, "TARGET                          HIDDEN FILES"),
            (3, "TARGET              HIDDEN FILES HIDDEN SIZE"),
        ] {
            table.keep(kept);
            let text = table.to_text(Some(44), false);
            assert_eq!(text.lines().next(), Some(head), "{text}");
        }
        assert!(!table.to_text(Some(30), false).contains("SIZE"));
    }

    #[test]
    fn identifying_column_can_be_the_last() {
        let heads = [
            ("DATE", Align::Right),
            ("STATUS", Align::Left),
            ("SIZE", Align::Right),
            ("ARCHIVE", Align::Left),
        ];
        let row = [
            "2026-11-30 19:37:00",
            "ok",
            "96.5 MiB",
            "src-2026-11-30T193700.1.7.tar.zst",
        ];
        let mut table = Table::from_rows(&heads, [row]);
        table.identify_by(3);
        let text = table.to_text(Some(64), false);
        let line = "2026-11-30 19:37:00 ok     src-2026-11-30T193700.1.7.tar.zst";
        assert_eq!(text.lines().nth(1), Some(line));
        let text = table.to_text(Some(50), false);
        assert!(
            text.lines()
                .nth(1)
                .is_some_and(|it| it.ends_with(".1.7.tar.zst")),
            "{text}"
        );
    }

    #[test]
    fn identifying_column_stays_and_columns_are_omitted_from_the_right() {
        let heads = [
            ("ALLOCATED", Align::Right),
            ("A LONG HEADING", Align::Right),
            ("PATH", Align::Left),
        ];
        let row = [
            "96.5 MiB",
            "1234567890.12",
            "/srv/mail/archive/2023/november/inbox/0001",
        ];
        let table = Table::from_rows(&heads, [row]);
        for (width, expected) in [
            (
                60,
                "ALLOCATED A LONG HEADING PATH\n 96.5 MiB  1234567890.12 /srv/mail/a…023/november/inbox/0001\n",
            ),
            (
                46,
                "ALLOCATED PATH\n 96.5 MiB /srv/mail/a…2023/november/inbox/0001\n",
            ),
            (30, "ALLOCATED PATH\n 96.5 MiB /srv/m…er/inbox/0001\n"),
            (10, "PATH\n/sr…x/0001\n"),
        ] {
            assert_eq!(table.to_text(Some(width), false), expected, "{width}");
        }
    }
}
