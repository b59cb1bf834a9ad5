//! A treemap: the area of each tile is proportional to its value, and tiles of one group are
//! adjacent. Squarified, after Bruls, Huizing and van Wijk (2000).

use crate::html::escape;

/// A tile, and its value in words.
#[allow(missing_docs, reason = "the names say it")]
pub struct Tile {
    pub label: String,
    pub value: f64,
    pub text: String,
}

/// Adjacent tiles, the largest first.
pub type Group = Vec<Tile>;

#[derive(Clone, Copy)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Two treemaps, for wide and for narrow screens, of which a page shows one. Labels are drawn where
/// they fit. `id` makes the ids of their titles unique in the page.
pub fn treemap(id: usize, title: &str, description: &str, groups: &[Group]) -> String {
    // Each width is the smallest at which the page shows that treemap, so that labels fit at any
    // width.
    let wide = draw(id, "wide", title, description, groups, (640.0, 340.0));
    wide + &draw(id, "narrow", title, description, groups, (300.0, 420.0))
}

fn draw(
    id: usize,
    class: &str,
    title: &str,
    description: &str,
    groups: &[Group],
    (width, height): (f64, f64),
) -> String {
    let (title, description) = (escape(title), escape(description));
    let mut out = format!(
        "<svg role=\"img\" class=\"treemap {class}\" aria-labelledby=\"map{id}-{class}-title map{id}-{class}-desc\" \
         style=\"height:{height:.0}px\">\n<title id=\"map{id}-{class}-title\">{title}</title>\n\
         <desc id=\"map{id}-{class}-desc\">{description}</desc>\n"
    );
    let all = Area {
        x: 0.0,
        y: 0.0,
        width,
        height,
    };
    let sum = |group: &Group| group.iter().map(|tile| tile.value).sum::<f64>();
    let sums: Vec<f64> = groups.iter().map(sum).collect();
    for (nth, (group, area)) in groups.iter().zip(squarify(&sums, all)).enumerate() {
        let values: Vec<f64> = group.iter().map(|tile| tile.value).collect();
        for (tile, area) in group.iter().zip(squarify(&values, area)) {
            out += &drawn_tile(tile, area, width, nth % COLORS);
        }
        out += &rectangle("group", area, width);
    }
    out + "</svg>\n"
}

/// The number of colours of groups, CSS classes `t0` and so on.
const COLORS: usize = 6;

fn rectangle(class: &str, area: Area, width: f64) -> String {
    let percent = |length: f64| 100.0 * length / width;
    format!(
        "<rect class=\"{class}\" x=\"{:.2}%\" y=\"{:.1}\" width=\"{:.2}%\" height=\"{:.1}\"/>\n",
        percent(area.x),
        area.y,
        percent(area.width),
        area.height
    )
}

fn drawn_tile(tile: &Tile, area: Area, width: f64, color: usize) -> String {
    /// Upper bound of the average width of a letter, with a font size of 12 pixels.
    const LETTER: f64 = 7.4;
    const MARGIN: f64 = 6.0;
    let (label, text) = (escape(&tile.label), escape(&tile.text));
    let rectangle = rectangle(&format!("tile t{color}"), area, width);
    let mut out = format!("<g><title>{label}: {text}</title>{rectangle}");
    let room = ((area.width - 2.0 * MARGIN) / LETTER).max(0.0) as usize;
    let fits = |text: &str| text.chars().count() <= room;
    let x = 100.0 * area.x / width;
    let mut line = |class: &str, y: f64, text: &str| {
        out += &format!(
            "<text class=\"{class}\" x=\"{x:.2}%\" dx=\"{MARGIN}\" y=\"{:.1}\">{text}</text>\n",
            area.y + y
        );
    };
    let short = shortened(&tile.label, room);
    if !short.is_empty() && area.height >= 20.0 {
        line("name", 15.0, &escape(&short));
        if fits(&tile.text) && area.height >= 38.0 {
            line("soft", 31.0, &text);
        }
    }
    out + "</g>\n"
}

/// Shortens a label to at most `room` letters: the whole label, or its last path component, or the
/// beginning of this component; empty if only a few letters fit.
fn shortened(label: &str, room: usize) -> String {
    const FEW: usize = 5;
    let len = |text: &str| text.chars().count();
    if len(label) <= room {
        return label.to_owned();
    }
    let last = label.rsplit('/').next().unwrap_or(label);
    match len(last) + 2 <= room {
        true => format!("…/{last}"),
        false if len(last) <= room => last.to_owned(),
        false if room < FEW => String::new(),
        false => last.chars().take(room - 1).chain(['…']).collect(),
    }
}

/// Divides an area in proportion to values, into strips along its shorter side whose parts are as
/// square as possible.
fn squarify(values: &[f64], mut left: Area) -> Vec<Area> {
    let mut areas = Vec::with_capacity(values.len());
    let mut rest: f64 = values.iter().sum();
    let mut at = 0;
    while at < values.len() {
        let scale = left.width * left.height / rest.max(f64::MIN_POSITIVE);
        let side = left.width.min(left.height);
        let mut count = 1;
        while at + count < values.len()
            && worst(&values[at..=at + count], scale, side)
                <= worst(&values[at..at + count], scale, side)
        {
            count += 1;
        }
        let strip = &values[at..at + count];
        let sum: f64 = strip.iter().sum();
        let thickness =
            (sum * scale / side.max(f64::MIN_POSITIVE)).min(left.width.max(left.height));
        let mut along = 0.0;
        for value in strip {
            let length = side * value / sum.max(f64::MIN_POSITIVE);
            areas.push(if left.width >= left.height {
                Area {
                    x: left.x,
                    y: left.y + along,
                    width: thickness,
                    height: length,
                }
            } else {
                Area {
                    x: left.x + along,
                    y: left.y,
                    width: length,
                    height: thickness,
                }
            });
            along += length;
        }
        if left.width >= left.height {
            left.x += thickness;
            left.width -= thickness;
        } else {
            left.y += thickness;
            left.height -= thickness;
        }
        rest -= sum;
        at += count;
    }
    areas
}

/// The largest aspect ratio of a part of a strip; 1 is a square.
fn worst(strip: &[f64], scale: f64, side: f64) -> f64 {
    let sum = strip.iter().sum::<f64>() * scale;
    let ratio = |value: &f64| {
        let part = (value * scale).max(f64::MIN_POSITIVE);
        let square = side * side * part / (sum * sum);
        square.max(1.0 / square)
    };
    strip.iter().map(ratio).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fill_the_area_in_proportion_and_do_not_overlap() {
        let values = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0, 0.01, 0.0];
        let all = Area {
            x: 0.0,
            y: 0.0,
            width: 600.0,
            height: 400.0,
        };
        let areas = squarify(&values, all);
        let sum: f64 = values.iter().sum();
        for (value, area) in values.iter().zip(&areas) {
            let expected = 600.0 * 400.0 * value / sum;
            assert!(
                (area.width * area.height - expected).abs() < 1e-6,
                "{value}"
            );
            assert!(area.x + area.width <= 600.0 + 1e-6 && area.y + area.height <= 400.0 + 1e-6);
        }
        for (at, a) in areas.iter().enumerate() {
            for b in &areas[at + 1..] {
                let across = (a.x + a.width).min(b.x + b.width) - a.x.max(b.x);
                let down = (a.y + a.height).min(b.y + b.height) - a.y.max(b.y);
                assert!(across < 1e-6 || down < 1e-6);
            }
        }
        assert!(squarify(&[], all).is_empty());
    }

    #[test]
    fn labels_are_shortened_to_fit() {
        for (label, room, expected) in [
            ("usr/lib", 7, "usr/lib"),
            ("usr/lib", 6, "…/lib"),
            ("usr/lib", 4, "lib"),
            ("usr/library", 8, "library"),
            ("usr/library", 6, "libra…"),
            ("usr/library", 4, ""),
            ("", 4, ""),
        ] {
            assert_eq!(shortened(label, room), expected, "{label} in {room}");
        }
    }

    #[test]
    fn labels_stand_where_they_fit() {
        let tile = |label: &str, value| Tile {
            label: label.to_owned(),
            value,
            text: "5 <calls>".to_owned(),
        };
        let long = "x".repeat(200);
        let drawn = treemap(
            3,
            "a & b",
            "c",
            &[vec![tile("usr", 99.0), tile(&long, 1.0)]],
        );
        assert_eq!(drawn.matches("class=\"name\"").count(), 2, "{drawn}");
        assert!(drawn.contains(">a &amp; b</title>") && drawn.contains("5 &lt;calls&gt;"));
        assert!(drawn.contains(&format!("<title>{long}: 5")), "{drawn}");
        assert!(!drawn.contains("NaN"));
    }
}
