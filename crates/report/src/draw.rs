//! The plots of the page: SVG in its colours. Across they are laid out in percent, so that letters
//! are as large on a phone as on a wall; nothing is told apart by colour alone.

use std::fmt::Write;

use crate::plot::{Figure, Scale, number, thinned};
use show::html::escape;

/// A bar.
pub struct Bar {
    /// What it is of.
    pub label: String,
    /// How long it is.
    pub value: f64,
    /// The same in words.
    pub text: String,
}

/// A dot on a scale of powers of ten, in seconds.
pub struct Dot {
    /// Where it is.
    pub seconds: f64,
    /// Between these it may be as well.
    pub range: (f64, f64),
    /// Whether it is filled, or a ring.
    pub filled: bool,
}

/// A row of dots.
pub struct Dots {
    /// What they are of.
    pub label: String,
    /// Where they are, in as little room as a phone has.
    pub text: String,
    /// The same in words.
    pub said: String,
    /// The dots.
    pub dots: Vec<Dot>,
}

/// Height of the words above a bar, and of what stands beneath them.
const WORDS: f64 = 18.0;
const BENEATH: f64 = 20.0;
const ROW: f64 = WORDS + BENEATH;

/// Puts a plot together: its name and what it shows are there for who does not see it.
fn svg(id: usize, title: &str, desc: &str, height: f64, drawn: &str) -> String {
    format!(
        "<svg role=\"img\" aria-labelledby=\"plot{id}-title plot{id}-desc\" style=\"height:{height:.0}px\">\n\
         <title id=\"plot{id}-title\">{}</title>\n<desc id=\"plot{id}-desc\">{}</desc>\n{drawn}</svg>\n",
        escape(title),
        escape(desc)
    )
}

fn words(out: &mut String, top: f64, label: &str, text: &str) {
    let row = top + WORDS - 5.0;
    let _ = writeln!(
        out,
        "<text x=\"0\" y=\"{row:.0}\">{}</text><text class=\"end\" x=\"100%\" y=\"{row:.0}\">{}</text>",
        escape(label),
        escape(text)
    );
}

/// Bars on one scale, which begins at 0.
pub fn bars(id: usize, title: &str, rows: &[Bar]) -> String {
    let longest = rows.iter().map(|row| row.value).fold(0.0, f64::max);
    let mut drawn = String::new();
    for (at, row) in rows.iter().enumerate() {
        let top = ROW * at as f64;
        words(&mut drawn, top, &row.label, &row.text);
        let percent = if longest > 0.0 {
            (100.0 * row.value / longest).clamp(0.0, 100.0)
        } else {
            0.0
        };
        let y = top + WORDS;
        let _ = writeln!(
            drawn,
            "<rect class=\"rail\" x=\"0\" y=\"{y:.0}\" width=\"100%\" height=\"10\"/>\
             <rect class=\"bar\" x=\"0\" y=\"{y:.0}\" width=\"{percent:.2}%\" height=\"10\"/>"
        );
    }
    let said: Vec<String> = rows
        .iter()
        .map(|row| format!("{}: {}", row.label, row.text))
        .collect();
    svg(
        id,
        title,
        &format!("{}.", said.join("; ")),
        ROW * rows.len() as f64,
        &drawn,
    )
}

/// Rows of dots on one scale of powers of ten.
pub fn dots(id: usize, title: &str, rows: &[Dots]) -> String {
    let all = rows.iter().flat_map(|row| &row.dots);
    let all = all
        .flat_map(|dot| [dot.seconds, dot.range.0, dot.range.1])
        .filter(|v| *v > 0.0 && v.is_finite());
    let (low, high) = all
        .map(f64::log10)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        });
    if low > high {
        return String::new();
    }
    // Whole powers; with less than two the scale would say nothing.
    let (from, to) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let x = |seconds: f64| {
        let across = if seconds > 0.0 {
            (seconds.log10() - from) / (to - from)
        } else {
            0.0
        };
        // Half a label must have room on either side, on a phone too.
        7.0 + 86.0 * across.clamp(0.0, 1.0)
    };
    let mut drawn = String::new();
    let bottom = ROW * rows.len() as f64;
    // Labels need room on a phone: so many, and no more.
    let every = ((to - from) / 6.0).ceil().max(1.0) as i32;
    for (at, power) in (from as i32..=to as i32).enumerate() {
        let across = x(10_f64.powi(power));
        let _ = write!(
            drawn,
            "<line class=\"line\" x1=\"{across:.2}%\" y1=\"0\" x2=\"{across:.2}%\" y2=\"{bottom:.0}\"/>"
        );
        if at as i32 % every == 0 {
            let row = bottom + 14.0;
            let _ = write!(
                drawn,
                "<text class=\"mid\" x=\"{across:.2}%\" y=\"{row:.0}\">{}</text>",
                power_of_ten(power)
            );
        }
        drawn.push('\n');
    }
    for (at, row) in rows.iter().enumerate() {
        let top = ROW * at as f64;
        words(&mut drawn, top, &row.label, &row.text);
        let y = top + WORDS + 6.0;
        for dot in &row.dots {
            let (left, right, across) = (x(dot.range.0), x(dot.range.1), x(dot.seconds));
            let class = if dot.filled { "dot" } else { "ring" };
            let _ = writeln!(
                drawn,
                "<line class=\"range\" x1=\"{left:.2}%\" y1=\"{y:.0}\" x2=\"{right:.2}%\" y2=\"{y:.0}\"/>\
                 <circle class=\"{class}\" cx=\"{across:.2}%\" cy=\"{y:.0}\" r=\"4.5\"/>"
            );
        }
    }
    let said: Vec<String> = rows
        .iter()
        .map(|row| format!("{}: {}", row.label, row.said))
        .collect();
    svg(
        id,
        title,
        &format!("{}.", said.join("; ")),
        bottom + 20.0,
        &drawn,
    )
}

/// `1 µs`, `100 ns`: ten to so many, in seconds.
fn power_of_ten(power: i32) -> String {
    let (unit, of) = match power {
        0.. => ("s", 0),
        -3..0 => ("ms", -3),
        -6..-3 => ("µs", -6),
        _ => ("ns", -9),
    };
    if power >= of {
        format!("1{} {unit}", "0".repeat((power - of) as usize))
    } else {
        format!("0.{}1 {unit}", "0".repeat((of - power - 1) as usize))
    }
}

/// Round values on a scale, few of them.
fn ticks(scale: &Scale) -> Vec<f64> {
    const MOST: f64 = 4.0;
    let wide = scale.to - scale.from;
    let rough = (wide / MOST).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|part| part * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(wide);
    // Of logarithms only whole ones are round.
    let step = if scale.log {
        step.ceil().max(1.0)
    } else {
        step
    };
    let first = (scale.from / step).ceil();
    let values = (0..=MOST as u32)
        .map(|n| (first + f64::from(n)) * step)
        .take_while(|value| *value <= scale.to);
    values
        .map(|value| if scale.log { 10_f64.powf(value) } else { value })
        .collect()
}

/// Samples as a line, with what stands out of them marked.
pub fn line(id: usize, figure: &Figure) -> String {
    /// More points do not show; and each takes some bytes of the page.
    const POINTS: usize = 500;
    /// More rings than these would hide the line.
    const RINGS: usize = 40;
    const TOP: f64 = 10.0;
    const HIGH: f64 = 160.0;
    let points: Vec<_> = figure
        .points
        .iter()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .copied()
        .collect();
    let (Some(&(first, _)), Some(&(last, _))) = (points.first(), points.last()) else {
        return String::new();
    };
    let highest = points
        .iter()
        .map(|point| point.1)
        .fold(f64::NEG_INFINITY, f64::max);
    let lowest = points
        .iter()
        .map(|point| point.1)
        .fold(f64::INFINITY, f64::min);
    let points = thinned(&points, POINTS);
    let scale = Scale::of(&points);
    let wide = (last - first).max(1.0);
    let across = |x: f64| 100.0 * ((x - first) / wide).clamp(0.0, 1.0);
    let up = |y: f64| ((scale.high(y) - scale.from) / (scale.to - scale.from)).clamp(0.0, 1.0);
    let mut drawn = String::new();
    for tick in ticks(&scale) {
        let y = TOP + HIGH * (1.0 - up(tick));
        let _ = writeln!(
            drawn,
            "<line class=\"line\" x1=\"0\" y1=\"{y:.1}\" x2=\"100%\" y2=\"{y:.1}\"/>\
             <text class=\"soft end\" x=\"-6\" y=\"{:.1}\">{}</text>",
            y + 4.0,
            number(tick)
        );
    }
    let line: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{:.1},{:.1}", 10.0 * across(*x), 1000.0 * (1.0 - up(*y))))
        .collect();
    let _ = writeln!(
        drawn,
        "<svg x=\"0\" y=\"{TOP}\" width=\"100%\" height=\"{HIGH}\" viewBox=\"0 0 1000 1000\" \
         preserveAspectRatio=\"none\"><polyline class=\"curve\" points=\"{}\"/></svg>",
        line.join(" ")
    );
    for at in figure.marks.iter().take(RINGS) {
        if let Some((x, y)) = figure.points.get(*at)
            && x.is_finite()
            && y.is_finite()
        {
            let cy = TOP + HIGH * (1.0 - up(*y));
            let _ = writeln!(
                drawn,
                "<circle class=\"ring\" cx=\"{:.2}%\" cy=\"{cy:.1}\" r=\"3.5\"/>",
                across(*x)
            );
        }
    }
    let row = TOP + HIGH + 15.0;
    let _ = writeln!(
        drawn,
        "<text x=\"0\" y=\"{row:.0}\">{}</text><text class=\"mid\" x=\"50%\" y=\"{row:.0}\">{}</text>\
         <text class=\"end\" x=\"100%\" y=\"{row:.0}\">{}</text>",
        number(first),
        escape(&figure.x),
        number(last)
    );
    let desc = format!(
        "{} (upwards) by {} (across), from {} to {}: between {} and {}; {} marked. {}.",
        figure.y,
        figure.x,
        number(first),
        number(last),
        number(lowest),
        number(highest),
        figure.marks.len(),
        figure.note
    );
    // The values stand left of it.
    svg(id, &figure.title, &desc, TOP + HIGH + 22.0, &drawn).replacen(
        "<svg role",
        "<svg class=\"inset\" role",
        1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_they_say() {
        let bar = |label: &str, value| Bar {
            label: label.to_owned(),
            value,
            text: format!("{value} <ms>"),
        };
        let text = bars(3, "a & b", &[bar("stat", 4.0), bar("threads", 1.0)]);
        assert!(
            text.contains("width=\"100.00%\"") && text.contains("width=\"25.00%\""),
            "{text}"
        );
        assert!(
            text.contains("<title id=\"plot3-title\">a &amp; b</title>"),
            "{text}"
        );
        assert!(
            text.contains(
                "<desc id=\"plot3-desc\">stat: 4 &lt;ms&gt;; threads: 1 &lt;ms&gt;.</desc>"
            ),
            "{text}"
        );
        assert!(bars(1, "", &[bar("nothing", 0.0)]).contains("width=\"0.00%\""));
    }

    #[test]
    fn dots_stand_where_they_belong() {
        let dot = |seconds| Dot {
            seconds,
            range: (seconds, seconds),
            filled: true,
        };
        let row = |dots| Dots {
            label: "statx".to_owned(),
            text: "so".to_owned(),
            said: "so".to_owned(),
            dots,
        };
        let text = dots(1, "t", &[row(vec![dot(1e-6), dot(1e-3)])]);
        assert!(
            text.contains("cx=\"7.00%\"") && text.contains("cx=\"93.00%\""),
            "{text}"
        );
        assert!(
            text.contains(">1 µs<") && text.contains(">1 ms<") && text.contains(">10 µs<"),
            "{text}"
        );
        for odd in [vec![], vec![dot(0.0)], vec![dot(f64::NAN)], vec![dot(-1.0)]] {
            assert_eq!(dots(1, "t", &[row(odd)]), "");
        }
        assert!(!dots(1, "t", &[row(vec![dot(1e-300), dot(1e300)])]).contains("NaN"));
    }

    #[test]
    fn a_line_has_its_marks_and_its_words() {
        let figure = Figure {
            title: "Pages".to_owned(),
            note: "readahead-steady: 128K".to_owned(),
            x: "run".to_owned(),
            y: "pages".to_owned(),
            points: (1..=2000)
                .map(|run| (f64::from(run), f64::from(run / 32 * 32)))
                .collect(),
            marks: vec![31, 63],
        };
        let text = line(7, &figure);
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(
            text.contains("pages (upwards) by run (across), from 1 to 2000"),
            "{text}"
        );
        assert!(text.contains("readahead-steady: 128K."), "{text}");
        assert!(text.len() < 10_000, "{}", text.len());
        for points in [
            vec![],
            vec![(1.0, 0.0)],
            vec![(1.0, 1e300), (2.0, -1e300)],
            vec![(f64::NAN, f64::INFINITY)],
        ] {
            let text = line(
                7,
                &Figure {
                    points,
                    marks: vec![7],
                    ..figure.clone()
                },
            );
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |log, from, to| ticks(&Scale { log, from, to });
        assert_eq!(ticks(false, 0.0, 2294.0), [0.0, 1000.0, 2000.0]);
        assert_eq!(ticks(false, 0.0, 11.2), [0.0, 5.0, 10.0]);
        assert_eq!(ticks(true, 1.9, 4.2), [100.0, 1000.0, 10_000.0]);
        assert!(ticks(true, 2.1, 2.9).is_empty());
        assert_eq!(ticks(false, 0.0, 1e-9).len(), 3);
    }

    #[test]
    fn powers_of_ten_in_the_units_that_people_say() {
        let said: Vec<_> = [-10, -9, -7, -6, -4, -3, -1, 0, 1]
            .into_iter()
            .map(power_of_ten)
            .collect();
        assert_eq!(
            said,
            [
                "0.1 ns", "1 ns", "100 ns", "1 µs", "100 µs", "1 ms", "100 ms", "1 s", "10 s"
            ]
        );
    }
}
