//! Figures of samples, as the paper draws them: a line over the runs, its peaks marked. Black on
//! white, so that a printer does.

use font8x8::legacy::BASIC_LEGACY;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters_backend::{
    BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

/// A figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// What was inferred from it.
    pub note: String,
    /// What is counted along it.
    pub x: String,
    /// What is measured.
    pub y: String,
    /// The samples: the run, and what was measured.
    pub points: Vec<(f64, f64)>,
    /// Places in `points` that are marked.
    pub marks: Vec<usize>,
}

/// Columns and rows of a figure.
const SIZE: (u32, u32) = (960, 540);
/// More points than these do not show.
const MOST: usize = 1200;

/// As SVG.
pub fn svg(figure: &Figure) -> String {
    let mut text = String::new();
    // Into a string nothing can fail.
    let _ = draw(
        figure,
        SVGBackend::with_string(&mut text, SIZE).into_drawing_area(),
    );
    text
}

/// As PNG, in shades of grey.
pub fn png(figure: &Figure) -> Vec<u8> {
    let mut canvas = Canvas {
        pixels: vec![255; SIZE.0 as usize * SIZE.1 as usize],
    };
    let _ = draw(figure, (&mut canvas).into_drawing_area());
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Grayscale);
    // Into memory nothing can fail.
    let _ = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&canvas.pixels));
    file
}

/// Of many points in a row the highest: a peak must not fall between two columns.
pub fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let part = points.len().div_ceil(most).max(1);
    points
        .chunks(part)
        .filter_map(|chunk| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)))
        .collect()
}

/// The scale of what is measured.
pub struct Scale {
    /// Whether it is one of powers: where a few samples are far above all others, equal steps would
    /// show nothing but them.
    pub log: bool,
    /// Its ends, logarithms if it is.
    pub from: f64,
    /// The upper one.
    pub to: f64,
}

impl Scale {
    /// One that all points are on.
    pub fn of(points: &[(f64, f64)]) -> Scale {
        let mut sorted: Vec<f64> = points.iter().map(|point| point.1).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        let highest = sorted.last().map_or(0.0, |last| last.max(0.0));
        let lowest = sorted.first().copied().unwrap_or(0.0);
        if lowest > 0.0 && highest > 20.0 * middle {
            Scale {
                log: true,
                from: lowest.log10() - 0.05,
                to: highest.log10() + 0.15,
            }
        } else {
            Scale {
                log: false,
                from: 0.0,
                to: highest * 1.12 + 1e-9,
            }
        }
    }

    /// How far up a value is.
    pub fn high(&self, v: f64) -> f64 {
        if self.log { v.log10() } else { v }
    }
}

fn draw<B: DrawingBackend>(
    figure: &Figure,
    root: DrawingArea<B, Shift>,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let points = thinned(&figure.points, MOST);
    let scale = Scale::of(&points);
    let (log, from, to) = (scale.log, scale.from, scale.to);
    let high = |v: f64| scale.high(v);
    let (first, last) = (
        points.first().map_or(0.0, |p| p.0),
        points.last().map_or(1.0, |p| p.0),
    );

    root.fill(&WHITE)?;
    let root = root.titled(&figure.title, ("sans-serif", 22))?;
    let root = root.titled(&figure.note, ("sans-serif", 15))?;
    let mut chart = ChartBuilder::on(&root)
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(86)
        .build_cartesian_2d(first..last.max(first + 1.0), from..to)?;
    let label = |v: &f64| number(if log { 10_f64.powf(*v) } else { *v });
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.15))
        .x_desc(format!(
            "{}      (up: {}{})",
            figure.x,
            figure.y,
            if log { ", logarithmic" } else { "" }
        ))
        .x_label_formatter(&|v| number(*v))
        .y_label_formatter(&label)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .draw()?;
    chart.draw_series(LineSeries::new(
        points.iter().map(|(x, y)| (*x, high(*y))),
        BLACK,
    ))?;
    let marks = || figure.marks.iter().filter_map(|at| figure.points.get(*at));
    chart
        .draw_series(marks().map(|(x, y)| Circle::new((*x, high(*y)), 5, BLACK.stroke_width(2))))?;
    // Numbers at the marks, as long as they do not lie upon each other.
    const NUMBERED: usize = 16;
    if figure.marks.len() <= NUMBERED {
        chart.draw_series(marks().map(|(x, y)| {
            EmptyElement::at((*x, high(*y))) + Text::new(number(*x), (6, -18), ("sans-serif", 14))
        }))?;
    }
    root.present()
}

/// A number at an axis.
pub fn number(v: f64) -> String {
    match v.abs() {
        a if a >= 1e9 => format!("{:.4}G", v / 1e9).replace(".0000G", "G"),
        a if a >= 1e6 => format!("{:.2}M", v / 1e6).replace(".00M", "M"),
        a if a >= 1e4 => format!("{:.1}k", v / 1e3).replace(".0k", "k"),
        _ => format!("{v:.2}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
    }
}

/// Pixels in memory: plotters draws on it with nothing but points, and letters come from a font of
/// 8 by 8.
struct Canvas {
    pixels: Vec<u8>,
}

impl Canvas {
    fn dot(&mut self, (x, y): BackendCoord, shade: f64, alpha: f64) {
        let (width, height) = (SIZE.0 as i32, SIZE.1 as i32);
        if (0..width).contains(&x)
            && (0..height).contains(&y)
            && let Some(pixel) = self.pixels.get_mut((y * width + x) as usize)
        {
            *pixel = (f64::from(*pixel) * (1.0 - alpha) + shade * alpha) as u8;
        }
    }
}

/// Columns and rows of a letter, and how far apart letters are, for a size in points.
fn scale(size: f64) -> i32 {
    if size > 18.0 { 2 } else { 1 }
}

impl DrawingBackend for &mut Canvas {
    type ErrorType = std::convert::Infallible;

    fn get_size(&self) -> (u32, u32) {
        SIZE
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        Ok(())
    }

    fn draw_pixel(
        &mut self,
        point: BackendCoord,
        color: BackendColor,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        let (r, g, b) = color.rgb;
        let shade = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
        self.dot(point, shade, color.alpha);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        use plotters_backend::text_anchor::{HPos, VPos};
        let (width, height) = self.estimate_text_size(text, style)?;
        let anchor = style.anchor();
        let left = match anchor.h_pos {
            HPos::Left => at.0,
            HPos::Center => at.0 - width as i32 / 2,
            HPos::Right => at.0 - width as i32,
        };
        let top = match anchor.v_pos {
            VPos::Top => at.1,
            VPos::Center => at.1 - height as i32 / 2,
            VPos::Bottom => at.1 - height as i32,
        };
        let big = scale(style.size());
        for (column, letter) in (0..).zip(text.chars()) {
            let rows = BASIC_LEGACY
                .get(letter as usize)
                .unwrap_or(&BASIC_LEGACY[b'?' as usize]);
            for (row, bits) in (0..).zip(rows) {
                for bit in (0..8).filter(|bit| bits >> bit & 1 != 0) {
                    for (dx, dy) in (0..big).flat_map(|dx| (0..big).map(move |dy| (dx, dy))) {
                        self.dot(
                            (left + (column * 8 + bit) * big + dx, top + row * big + dy),
                            0.0,
                            1.0,
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Self::ErrorType>> {
        let letter = 8 * scale(style.size()) as u32;
        Ok((letter * text.chars().count() as u32, letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        Figure {
            title: "256-byte reads & <others>".to_owned(),
            note: "4096".to_owned(),
            x: "run".to_owned(),
            y: "ns".to_owned(),
            points: (1..=100)
                .map(|run| (f64::from(run), if run % 16 == 1 { 10.0 } else { 1.0 }))
                .collect(),
            marks: (0..100).step_by(16).collect(),
        }
    }

    #[test]
    fn a_figure_has_its_marks_and_its_words() {
        let text = svg(&figure());
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert_eq!(text.matches("<circle").count(), 7);
        assert!(
            text.contains("256-byte reads &amp; &lt;others&gt;"),
            "{text}"
        );
        let image = png(&figure());
        assert!(image.starts_with(b"\x89PNG\r\n\x1a\n"));
        let reader = png::Decoder::new(std::io::Cursor::new(&image))
            .read_info()
            .unwrap();
        assert_eq!((reader.info().width, reader.info().height), SIZE);
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        for points in [
            vec![],
            vec![(1.0, 0.0)],
            vec![(1.0, 5.0), (2.0, 5.0)],
            vec![(1.0, 1e300), (2.0, -1e300)],
        ] {
            let figure = Figure {
                points,
                marks: vec![7],
                ..figure()
            };
            assert!(svg(&figure).contains("</svg>"));
            assert!(!png(&figure).is_empty());
        }
    }

    #[test]
    fn many_points_keep_their_peaks() {
        let points: Vec<(f64, f64)> = (0..16_384)
            .map(|i| (f64::from(i), if i == 9999 { 50.0 } else { 1.0 }))
            .collect();
        let thin = thinned(&points, MOST);
        assert!(thin.len() <= MOST && thin.contains(&(9999.0, 50.0)));
    }
}
