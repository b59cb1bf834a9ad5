//! The HTML page of `fathom compare --html`: the tables, and a plot of the ratios.

use account::compare::comparison::{Comparison, Pair};
use account::compare::runs::Measure;
use account::figures::FigureChange;
use base::runs::Stats;
use show::figure::{Strip, strips};
use show::html::{escape, page, scroll};

use super::figures::{figures_tables, summary};
use super::show::{origin, summary_table, systems_table, times, title};

/// The changed figures of two files, and the names of the files.
pub(super) type Changes<'a> = (&'a [FigureChange], [&'a [u8]; 2]);

pub(super) fn html(comparisons: &[Comparison<'_>], changes: Option<Changes<'_>>) -> String {
    const INTRODUCTION: &str = "<p>A ratio is the time of the first program divided by that of the second, on one system. Mean, \
        median, max, min and sample standard deviation are over the systems. There is no ratio where a time is missing or 0.</p>\n";
    let pairs = comparisons.iter().flat_map(Comparison::pairs);
    let ratios: String = pairs.map(section).collect();
    let introduction = if ratios.is_empty() { "" } else { INTRODUCTION };
    let figures = changes.map_or(String::new(), figures_section);
    page(
        "Comparison of runs",
        &format!("{introduction}{ratios}{figures}"),
    )
}

fn figures_section((changes, names): Changes<'_>) -> String {
    let tables = figures_tables(changes).into_iter().map(|(name, table)| {
        let table = table.to_html(name);
        scroll(name, &table)
    });
    let (summary, tables) = (escape(&summary(changes, names)), tables.collect::<String>());
    format!("<section>\n<h2>Figures</h2>\n<p>{summary}</p>\n{tables}</section>\n")
}

fn section(pair: Pair<'_>) -> String {
    let title = title(pair);
    let summary = summary_table(pair).to_html(&format!(
        "{title}: statistics of the ratios; AVG in seconds"
    ));
    let systems = systems_table(pair).to_html(&format!("{title} by system: seconds and ratios"));
    let strips = strips(
        &format!("Ratios {title}"),
        &pair
            .measures()
            .filter_map(|measure| strip(pair, measure))
            .collect::<Vec<_>>(),
    );
    format!(
        "<section>\n<h2>{}</h2>\n<p>{}.</p>\n<figure>\n{strips}<figcaption>Ratios: a dot for each system, \
         a thick line at the median, a thin line at 1 (equal times). The scale is logarithmic.</figcaption>\n\
         </figure>\n{}{}</section>\n",
        escape(&title),
        escape(&origin(pair)),
        scroll(&format!("{title}, statistics"), &summary),
        scroll(&format!("{title}, by system"), &systems)
    )
}

/// The plot of the ratios of a measure; `None` without ratios.
fn strip(pair: Pair<'_>, measure: Measure) -> Option<Strip> {
    let stats = Stats::from_values(pair.ratios(measure))?;
    let [median, min, max] = [stats.median, stats.min, stats.max].map(times);
    Some(Strip {
        label: measure.name().to_owned(),
        text: format!("median {median}, from {min} to {max}"),
        ratios: pair.ratios(measure).collect(),
        median: stats.median,
    })
}

#[cfg(test)]
mod tests {
    use super::super::show::tests::example;
    use super::*;
    use account::figures::{Figure, compare};

    #[test]
    fn page_has_tables_and_figure_and_is_escaped() {
        let runs = example();
        let comparison = Comparison {
            runs: &runs,
            base: 1,
        };
        let page = html(&[comparison], None);
        assert!(
            page.contains("os &lt;b&gt;") && page.contains("a&amp;b") && !page.contains("<b>"),
            "{page}"
        );
        assert_eq!(
            (
                page.matches("<table>").count(),
                page.matches("</svg>").count()
            ),
            (2, 4)
        );
        assert_eq!(page.matches("<circle").count(), 4);
        assert!(
            page.contains("real</span> <span class=\"value\">median 2.50, from 2.00 to 3.00"),
            "{page}"
        );
    }

    #[test]
    fn page_of_two_files_has_their_figures() {
        let figures = |value| [Figure::exact("program <b> calls", value, "calls")];
        let changes = compare(&figures(1.0), &figures(2.0));
        let page = html(&[], Some((&changes, [b"<a>", b"b"])));
        for part in [
            "From &lt;a&gt; to b: of 1 figure, 1 changed",
            "program &lt;b&gt; calls",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("A ratio is"), "{page}");
    }
}
