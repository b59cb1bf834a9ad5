//! Tables in the form of the Multics memo of 1974, for `fathom account --model`. `fathom dump
//! --account` uses [`Grid`], too.

use std::iter::once;

use account::Cost;
use account::memo::Column;
use show::json_object;
use show::table::{Align, RowColour, Table, TableStyle};

use crate::json::Json;

pub(crate) struct Model<'a> {
    /// The fixed cost of each call in the model, in milliseconds.
    pub(crate) fixed_ms: f64,
    pub(crate) columns: &'a [Column],
}

json_object!(Model<'_>, |model| {
    "fixed_ms": model.fixed_ms,
    "options": Json(model.columns),
});

json_object!(Json<'_, Column>, |column| {
    "name": column.name,
    "dir": Json(&column.costs.dir),
    "file": Json(&column.costs.file),
    "saves_percent": column.saves,
    "printed": column.printed,
    "saves_system_percent": column.saves_system,
    "printed_system": column.printed_system,
});

json_object!(Json<'_, Cost>, |cost| {
    "overhead": cost.overhead,
    "useful": cost.useful,
    "total": cost.total(),
});

/// The last table of the 1974 memo, computed by the model.
pub(crate) fn model_text(model: &Model<'_>, style: TableStyle) -> String {
    let mut grid = Grid::new(model.columns, |column| column.name);
    let directories = (|column| column.costs.dir) as fn(&Column) -> Cost;
    for (what, cost) in [
        ("Directories, ms", directories),
        ("Files, ms", |column| column.costs.file),
    ] {
        grid.heading(what);
        grid.row("  overhead", |column| Some(short(cost(column).overhead)));
        grid.row("  useful", |column| Some(short(cost(column).useful)));
        grid.row("  total", |column| Some(short(cost(column).total())));
    }
    grid.heading("Savings, %");
    grid.row("  of the program's CPU time", |column| {
        Some(short(column.saves))
    });
    grid.printed_row(|column| column.printed);
    grid.row("  of the system's CPU time", |column| {
        Some(short(column.saves_system))
    });
    grid.printed_row(|column| column.printed_system);
    format!(
        "Overhead of a call: {} ms; the rest of its time is useful work.\n\n{}",
        short(model.fixed_ms),
        grid.to_text(style)
    )
}

/// A table that compares ways to do the same work, one per column.
pub(crate) struct Grid<'a, T> {
    options: &'a [T],
    table: Table,
}

impl<'a, T> Grid<'a, T> {
    pub(crate) fn new(options: &'a [T], name: fn(&T) -> &'static str) -> Grid<'a, T> {
        let names = options.iter().map(|option| (name(option), Align::Right));
        let columns: Vec<_> = once(("", Align::Left)).chain(names).collect();
        let table = Table::new(&columns, 0);
        Grid { options, table }
    }

    pub(crate) fn heading(&mut self, what: &str) {
        self.row(what, |_| Some(String::new()));
    }

    pub(crate) fn row(&mut self, what: &str, cell: impl Fn(&T) -> Option<String>) {
        let cell = |option| cell(option).unwrap_or_else(|| "-".to_owned());
        let cells = self.options.iter().map(cell);
        self.table
            .row(once(what.to_owned()).chain(cells), RowColour::Plain);
    }

    pub(crate) fn to_text(&self, style: TableStyle) -> String {
        self.table.to_text(style.width, style.color)
    }
}

impl Grid<'_, Column> {
    /// Adds a row with the values that the 1974 memo prints; adds none if the memo prints no such
    /// values.
    fn printed_row(&mut self, printed: fn(&Column) -> Option<f64>) {
        if self.options.iter().any(|column| printed(column).is_some()) {
            self.row("    printed in the memo", |column| {
                printed(column).map(short)
            });
        }
    }
}

/// A number with more decimals, the smaller it is.
fn short(value: f64) -> String {
    match value.abs() {
        whole if value.fract() == 0.0 && whole < 1e15 => format!("{value:.0}"),
        large if large >= 100.0 => format!("{value:.1}"),
        some if some >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use account::PerKind;

    use super::*;

    #[test]
    fn table_of_the_model() {
        let cost = |overhead, useful| Cost { overhead, useful };
        let today = Column {
            name: "today",
            costs: PerKind::new(cost(350.0, 115.0), cost(84.0, 15.0)),
            saves: 0.0,
            printed: None,
            saves_system: 0.0,
            printed_system: None,
        };
        let raw = Column {
            name: "rawdump",
            costs: PerKind::new(cost(30.0, 15.0), cost(5.0, 15.0)),
            saves: 45.0,
            printed: Some(41.0),
            saves_system: 9.0,
            printed_system: Some(8.0),
        };
        let model = Model {
            fixed_ms: 14.0,
            columns: &[today, raw],
        };
        let text = model_text(&model, TableStyle::default());
        let expected = "\
Overhead of a call: 14 ms; the rest of its time is useful work.

                            today rawdump
Directories, ms
  overhead                    350      30
  useful                      115      15
  total                       465      45
Files, ms
  overhead                     84       5
  useful                       15      15
  total                        99      20
Savings, %
  of the program's CPU time     0      45
    printed in the memo         -      41
  of the system's CPU time      0       9
    printed in the memo         -       8
";
        assert_eq!(text, expected);
    }
}
