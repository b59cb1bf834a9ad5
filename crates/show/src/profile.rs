//! The profile of the 1988 papers: `%Time Seconds Cumsecs #Calls msec/call Name`, costliest first.

use serde::Serialize;

use crate::table::Table;

/// The line of a system call in the profile.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Line {
    pub gate: &'static str,
    /// The share of the time in all system calls.
    pub percent: f64,
    pub seconds: f64,
    /// Seconds in this call and in those of the lines above.
    pub cumulative: f64,
    /// The number of calls, including failed ones.
    pub calls: u64,
    pub ms_per_call: f64,
}

/// The lines of the profile, from name, calls and seconds of each system call.
pub fn lines(gates: impl IntoIterator<Item = (&'static str, u64, f64)>) -> Vec<Line> {
    let mut gates: Vec<_> = gates
        .into_iter()
        .filter(|(_, calls, _)| *calls > 0)
        .collect();
    gates.sort_by(|a, b| b.2.total_cmp(&a.2).then(b.1.cmp(&a.1)).then(a.0.cmp(b.0)));
    let total: f64 = gates.iter().map(|(_, _, seconds)| seconds).sum();
    let mut cumulative = 0.0;
    let line = |(gate, calls, seconds): (&'static str, u64, f64)| {
        cumulative += seconds;
        Line {
            gate,
            percent: if total > 0.0 {
                100.0 * seconds / total
            } else {
                0.0
            },
            seconds,
            cumulative,
            calls,
            ms_per_call: 1000.0 * seconds / calls as f64,
        }
    };
    gates.into_iter().map(line).collect()
}

/// The profile as a table.
pub fn to_text(lines: &[Line], color: bool) -> String {
    let columns = crate::columns![
        >"%Time", >"Seconds", >"Cumsecs", >"#Calls", >"msec/call", <"Name"
    ];
    let row = |line: &Line| {
        [
            format!("{:.1}", line.percent),
            format!("{:.6}", line.seconds),
            format!("{:.6}", line.cumulative),
            line.calls.to_string(),
            format!("{:.6}", line.ms_per_call),
            line.gate.to_owned(),
        ]
    };
    Table::from_rows(&columns, lines.iter().map(row)).to_text(None, color)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_costliest_comes_first_and_shares_add_up() {
        let lines = super::lines([("read", 4, 0.1), ("statx", 100, 0.3), ("close", 0, 0.0)]);
        assert_eq!(
            lines.iter().map(|l| l.gate).collect::<Vec<_>>(),
            ["statx", "read"]
        );
        assert!((lines.iter().map(|l| l.percent).sum::<f64>() - 100.0).abs() < 1e-9);
        assert!((lines[1].cumulative - 0.4).abs() < 1e-9);
        assert!((lines[0].ms_per_call - 3.0).abs() < 1e-9);
    }
}
