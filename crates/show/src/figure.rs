//! Figures as SVG: series of samples, bars, and dots on logarithmic scales.
//!
//! Horizontal positions are percentages, vertical ones pixels, so that a figure scales with the
//! width of its column while its letters keep their size. Names and values of rows, and names of
//! axes, are HTML, which wraps; an SVG only has shapes and the numbers of axes. The classes are
//! those of `templates/style.css`; a figure in a separate file ([`Plot::to_svg`]) has its own
//! style, black on white. No meaning depends on colour alone.

pub use plot::Plot;

use crate::html::escape;

mod plot;

/// A bar of a bar chart, and its value in words.
#[allow(missing_docs, reason = "the names say it")]
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub text: String,
    /// A CSS class: `now`, `possible`, `warn` or `bad`; or empty.
    pub class: &'static str,
}

/// A dot on a logarithmic scale of seconds, with a line for its range.
#[allow(missing_docs, reason = "the names say it")]
pub struct Dot {
    pub seconds: f64,
    pub range: (f64, f64),
    /// Whether the dot is filled; otherwise it is a ring.
    pub filled: bool,
}

/// A row of dots with a label, on a logarithmic scale of seconds.
#[allow(missing_docs, reason = "the names say it")]
pub struct Dots {
    pub label: String,
    /// The values of the row in words.
    pub text: String,
    pub dots: Vec<Dot>,
}

/// A row of ratios on a logarithmic scale: a dot for each, and a line at the median.
#[allow(missing_docs, reason = "the names say it")]
pub struct Strip {
    pub label: String,
    /// The values of the row in words.
    pub text: String,
    pub ratios: Vec<f64>,
    pub median: f64,
}

#[derive(Default)]
struct Canvas(String);

impl Canvas {
    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.0 += &format!(
            "<line class=\"{class}\" x1=\"{x1:.2}%\" y1=\"{y1:.1}\" x2=\"{x2:.2}%\" y2=\"{y2:.1}\"/>\n"
        );
    }

    fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.0 += &format!("<text class=\"{class}\" x=\"{x:.2}%\" y=\"{y:.1}\">{text}</text>\n");
    }

    fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        self.0 +=
            &format!("<circle class=\"{class}\" cx=\"{x:.2}%\" cy=\"{y:.1}\" r=\"{radius}\"/>\n");
    }

    /// The SVG element for a page. Title and description are for screen readers; `id` makes their
    /// element ids unique in the page.
    fn into_svg(self, id: usize, title: &str, description: &str, height: f64) -> String {
        format!(
            "<svg role=\"img\" aria-labelledby=\"plot{id}-title plot{id}-desc\" style=\"height:{height:.0}px\">\n\
             <title id=\"plot{id}-title\">{}</title>\n<desc id=\"plot{id}-desc\">{}</desc>\n{}</svg>\n",
            escape(title),
            escape(description),
            self.0
        )
    }
}

/// An SVG bar that covers `percent` of the width. Screen readers skip the bar, because the text
/// beside it has the same value.
pub fn bar(class: &str, percent: f64) -> String {
    let percent = percent.clamp(0.0, 100.0);
    format!(
        "<svg class=\"track {class}\" aria-hidden=\"true\"><rect class=\"rail\" width=\"100%\" height=\"100%\"/>\
         <rect class=\"bar\" width=\"{percent:.2}%\" height=\"100%\"/></svg>"
    )
}

/// The HTML of a row in a figure: the label, the value in words, and the drawing.
fn row(label: &str, text: &str, drawn: &str) -> String {
    let (label, text) = (escape(label), escape(text));
    format!(
        "<li><span class=\"label\">{label}</span> <span class=\"value\">{text}</span>{drawn}</li>\n"
    )
}

fn rows(title: &str, rows: &str, axis: &str) -> String {
    let title = escape(title);
    format!("<p class=\"title\">{title}</p>\n<ul class=\"rows\">\n{rows}</ul>\n{axis}")
}

/// Bars on one scale, which begins at 0.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let longest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let shown = bars.iter().map(|one| {
        let percent = 100.0 * one.value / longest.max(f64::MIN_POSITIVE);
        row(&one.label, &one.text, &bar(one.class, percent))
    });
    rows(title, &shown.collect::<String>(), "")
}

/// An SVG that screen readers skip, because a text beside it has the same values.
fn hidden_svg(class: &str, height: f64, drawn: &Canvas) -> String {
    format!(
        "<svg class=\"{class}\" aria-hidden=\"true\" style=\"height:{height:.0}px\">\n{}</svg>\n",
        drawn.0
    )
}

/// Rows of dots on one logarithmic scale of seconds.
pub fn dots(title: &str, all: &[Dots]) -> String {
    const HEIGHT: f64 = 16.0;
    let Some(scale) = SecondsScale::new(all) else {
        return String::new();
    };
    let drawn = all.iter().map(|one| {
        let mut canvas = Canvas::default();
        scale.draw_row(&mut canvas, one, 0.0, HEIGHT);
        row(&one.label, &one.text, &hidden_svg("dots", HEIGHT, &canvas))
    });
    let drawn: String = drawn.collect();
    let mut axis = Canvas::default();
    // The axis has about five labels, because more do not fit on a phone.
    scale.draw_axis(&mut axis, "soft mid", 5.0, 12.0);
    rows(title, &drawn, &hidden_svg("axis", 16.0, &axis))
}

/// Rows of dots as a separate SVG file, with a note below the title; `None` if there are no dots.
pub fn dots_svg(title: &str, note: &str, all: &[Dots]) -> Option<String> {
    const ROW: f64 = 24.0;
    /// The left ends of the labels, of the dots and of the values, and the width, in pixels.
    const COLUMNS: [f64; 4] = [16.0, 270.0, 720.0, 960.0];
    const TOP: f64 = 76.0;
    let scale = SecondsScale::new(all)?;
    let [label, area, text, width] = COLUMNS;
    let (mut texts, mut dots) = (Canvas::default(), Canvas::default());
    texts.text("mid title", (50.0, 32.0), title);
    texts.text("mid", (50.0, 56.0), note);
    let percent = |x: f64| 100.0 * x / width;
    for (at, one) in all.iter().enumerate() {
        let top = ROW * at as f64;
        let base = TOP + top + 17.0;
        texts.text("start", (percent(label), base), &one.label);
        texts.text("start", (percent(text), base), &one.text);
        scale.draw_row(&mut dots, one, top, ROW);
    }
    let high = ROW * all.len() as f64;
    scale.draw_axis(&mut dots, "mid", 8.0, high + 18.0);
    dots.text("mid", (50.0, high + 40.0), "time per call, logarithmic");
    let layout = FileLayout {
        width,
        height: TOP + high + 56.0,
        left: area,
        top: TOP,
        area_width: text - area,
        area_height: high,
    };
    Some(file(&layout, &texts, &dots))
}

/// The size of an SVG file, and the area in it that has the data, in pixels.
struct FileLayout {
    width: f64,
    height: f64,
    left: f64,
    top: f64,
    area_width: f64,
    area_height: f64,
}

/// The text of an SVG file. `frame` is drawn in coordinates of the file, `area` in those of the
/// data area.
fn file(layout: &FileLayout, frame: &Canvas, area: &Canvas) -> String {
    const STYLE: &str = "text{font:14px sans-serif}.title{font-size:22px}.mid{text-anchor:middle}\
        .end{text-anchor:end}.line{stroke:#d9d9d9}.axis,.range{stroke:#000}.curve,.ring{fill:none;stroke:#000}\
        .ring{stroke-width:2px}.curve{vector-effect:non-scaling-stroke}";
    let FileLayout {
        width,
        height,
        left,
        top,
        area_width: wide,
        area_height: high,
    } = layout;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}\
         <svg x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{high}\" overflow=\"visible\">\n{}</svg>\n</svg>\n",
        frame.0, area.0
    )
}

/// A logarithmic scale of seconds. Both ends are powers of ten, and differ at least by a factor of
/// ten.
struct SecondsScale {
    from: f64,
    to: f64,
}

impl SecondsScale {
    fn new(all: &[Dots]) -> Option<SecondsScale> {
        let dots = all.iter().flat_map(|row| &row.dots);
        let values = dots.flat_map(|dot| [dot.seconds, dot.range.0, dot.range.1]);
        let positive = values.filter(|v| *v > 0.0 && v.is_finite());
        let (low, high) = ends(positive.map(f64::log10))?;
        Some(SecondsScale {
            from: low.floor(),
            to: high.ceil().max(low.floor() + 1.0),
        })
    }

    fn x(&self, seconds: f64) -> f64 {
        // The logarithm of 0 is negative infinity, which is clamped to the left end.
        let across = (seconds.max(0.0).log10() - self.from) / (self.to - self.from);
        // Margins for half a label on either side, even on a phone.
        8.0 + 84.0 * across.clamp(0.0, 1.0)
    }

    fn powers(&self) -> impl Iterator<Item = (i32, f64)> {
        let powers = self.from as i32..=self.to as i32;
        powers.map(|power| (power, self.x(10_f64.powi(power))))
    }

    fn draw_row(&self, canvas: &mut Canvas, row: &Dots, top: f64, height: f64) {
        for (_, across) in self.powers() {
            canvas.line("line", (across, top), (across, top + height));
        }
        for dot in &row.dots {
            let y = top + height / 2.0;
            canvas.line("range", (self.x(dot.range.0), y), (self.x(dot.range.1), y));
            let class = if dot.filled { "dot" } else { "ring" };
            canvas.circle(class, (self.x(dot.seconds), y), 4.5);
        }
    }

    /// Labels the axis with about `most` powers of ten, at the vertical position `y`.
    fn draw_axis(&self, canvas: &mut Canvas, class: &str, most: f64, y: f64) {
        let every = ((self.to - self.from) / most).ceil().max(1.0) as usize;
        for (power, across) in self.powers().step_by(every) {
            canvas.text(class, (across, y), &power_of_ten(power));
        }
    }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, v| match ends {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}

/// A power of ten in seconds: `1 µs`, `100 ns`.
fn power_of_ten(power: i32) -> String {
    let (unit, base) = match power {
        0.. => ("s", 0),
        -3..0 => ("ms", -3),
        -6..-3 => ("µs", -6),
        _ => ("ns", -9),
    };
    if power >= base {
        format!("1{} {unit}", "0".repeat((power - base) as usize))
    } else {
        format!("0.{}1 {unit}", "0".repeat((base - power - 1) as usize))
    }
}

/// Half of the maximum height of a pile (dots stacked vertically), in pixels.
const PILE: f64 = 19.0;
/// The maximum vertical distance of two dots in a pile, in pixels.
const DOT: f64 = 5.0;
/// The width of a pile in percent of the figure: about as wide as a dot on a phone.
const COLUMN: f64 = 1.5;

/// Strips of ratios on one logarithmic scale, with a line at 1.
pub fn strips(title: &str, strips: &[Strip]) -> String {
    const HEIGHT: f64 = 2.0 * PILE + 8.0;
    let all = strips.iter().flat_map(|strip| &strip.ratios);
    let (low, high) = ends(all.chain([&1.0]).map(|ratio| ratio.log10())).unwrap_or_default();
    let pad = ((high - low) * 0.04).max(0.02);
    let (from, to) = (low - pad, high + pad);
    let x = |ratio: f64| 4.0 + 92.0 * (ratio.log10() - from) / (to - from);
    let ticks = ratio_ticks(from, to);
    let drawn = strips.iter().map(|strip| {
        let mut canvas = Canvas::default();
        for tick in &ticks {
            let class = if *tick == 1.0 { "strong" } else { "line" };
            canvas.line(class, (x(*tick), 0.0), (x(*tick), HEIGHT));
        }
        let median = x(strip.median);
        canvas.line("strong thick", (median, 2.0), (median, HEIGHT - 2.0));
        piles(
            &mut canvas,
            strip.ratios.iter().copied().map(x),
            HEIGHT / 2.0,
        );
        row(
            &strip.label,
            &strip.text,
            &hidden_svg("dots", HEIGHT, &canvas),
        )
    });
    let drawn: String = drawn.collect();
    let mut axis = Canvas::default();
    for tick in &ticks {
        axis.text("soft mid", (x(*tick), 12.0), &ratio_label(*tick));
    }
    rows(title, &drawn, &hidden_svg("axis", 16.0, &axis))
}

/// Draws dots at `positions`, and stacks nearby dots into piles. Dots that do not fit into a pile
/// are not drawn: the table has their values.
fn piles(canvas: &mut Canvas, positions: impl Iterator<Item = f64>, middle: f64) {
    const MOST: usize = 60;
    let mut piles: Vec<Vec<f64>> = vec![Vec::new(); (100.0 / COLUMN) as usize + 1];
    for position in positions {
        if let Some(pile) = piles.get_mut((position.max(0.0) / COLUMN) as usize) {
            pile.push(position);
        }
    }
    for pile in piles {
        let count = pile.len().min(MOST);
        let apart = DOT.min(2.0 * PILE / count.max(1) as f64);
        for (at, position) in pile.into_iter().take(count).enumerate() {
            // Stack from the middle outwards, alternating above and below.
            let step = at.div_ceil(2) as f64 * apart;
            let y = middle + if at % 2 == 0 { -step } else { step };
            canvas.circle("pile", (position, y), 2.4);
        }
    }
}

/// Tick marks of the axis: round ratios between 10 to the power `from` and 10 to the power `to`,
/// few enough for a phone.
fn ratio_ticks(from: f64, to: f64) -> Vec<f64> {
    const MOST: usize = 8;
    let (fine, whole): (&[f64], &[f64]) = (&[1.0, 2.0, 5.0], &[1.0]);
    for (parts, every) in [(fine, 1), (whole, 1), (whole, 2), (whole, 4), (whole, 8)] {
        let powers = (from.floor() as i32..=to.ceil() as i32).filter(|power| power % every == 0);
        let all = powers.flat_map(|power| parts.iter().map(move |part| part * 10_f64.powi(power)));
        let is_within = |tick: &f64| (from..=to).contains(&tick.log10());
        let within: Vec<f64> = all.filter(is_within).collect();
        if within.len() <= MOST {
            return within;
        }
    }
    vec![1.0]
}

fn ratio_label(tick: f64) -> String {
    if (0.001..1e5).contains(&tick) {
        format!("{tick}")
    } else {
        format!("{tick:.0e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_proportional_to_their_values() {
        let bar = |label: &str, value| Bar {
            label: label.to_owned(),
            value,
            text: format!("{value} <ms>"),
            class: "",
        };
        let text = bars("a & b", &[bar("stat", 4.0), bar("threads", 1.0)]);
        assert!(
            text.contains("width=\"100.00%\"") && text.contains("width=\"25.00%\""),
            "{text}"
        );
        assert!(text.contains("<p class=\"title\">a &amp; b</p>"), "{text}");
        let threads =
            "<span class=\"label\">threads</span> <span class=\"value\">1 &lt;ms&gt;</span>";
        assert!(text.contains(threads), "{text}");
        assert!(bars("", &[bar("nothing", 0.0)]).contains("width=\"0.00%\""));
    }

    #[test]
    fn dots_are_at_their_positions() {
        let dot = |seconds| Dot {
            seconds,
            range: (seconds, seconds),
            filled: true,
        };
        let row = |dots| Dots {
            label: "statx".to_owned(),
            text: "so".to_owned(),
            dots,
        };
        let text = dots("t", &[row(vec![dot(1e-6), dot(1e-3)])]);
        assert!(
            text.contains("cx=\"8.00%\"") && text.contains("cx=\"92.00%\""),
            "{text}"
        );
        assert!(
            text.contains(">1 µs<") && text.contains(">1 ms<") && text.contains(">10 µs<"),
            "{text}"
        );
        for odd in [vec![], vec![dot(0.0)], vec![dot(f64::NAN)], vec![dot(-1.0)]] {
            assert_eq!(dots("t", &[row(odd)]), "");
        }
        assert!(!dots("t", &[row(vec![dot(1e-300), dot(1e300)])]).contains("NaN"));
    }

    #[test]
    fn ratio_ticks_are_round_and_few() {
        assert_eq!(ratio_ticks(-0.1, 1.1), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ratio_ticks(-2.1, 2.1), [0.01, 0.1, 1.0, 10.0, 100.0]);
        for (from, to) in [(-0.02, 0.02), (-24.0, 24.0), (0.3, 0.4), (-3.0, 14.0)] {
            assert!(ratio_ticks(from, to).len() <= 8, "{from} {to}");
        }
    }

    #[test]
    fn piles_stay_within_their_strip() {
        let mut canvas = Canvas::default();
        piles(&mut canvas, std::iter::repeat_n(50.0, 10_000), 40.0);
        let drawn = canvas.0;
        assert!(drawn.matches("<circle").count() <= 60);
        let rows = drawn
            .split("cy=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
        assert!(
            rows.into_iter().all(|row| (row - 40.0).abs() <= PILE + 1.0),
            "{drawn}"
        );
    }

    #[test]
    fn powers_of_ten_have_the_unit_that_fits() {
        let labels: Vec<_> = [-10, -9, -7, -6, -4, -3, -1, 0, 1]
            .into_iter()
            .map(power_of_ten)
            .collect();
        assert_eq!(
            labels,
            [
                "0.1 ns", "1 ns", "100 ns", "1 µs", "100 µs", "1 ms", "100 ms", "1 s", "10 s"
            ]
        );
    }
}
