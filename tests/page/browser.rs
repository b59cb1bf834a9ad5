//! Opens a page in headless Chromium, and lists its faults. The unit tests of `fathom survey` share
//! this module.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::need::{Need, built, tool_path};
use super::tool::tool;

/// The rules of accessibility, axe-core.
const AXE: &str = "axe-core/node_modules/axe-core/axe.min.js";
pub(crate) const NEEDS: [Need; 3] = [
    Need::Program("chromium"),
    Need::Program("node"),
    Need::Tool(AXE),
];

/// Opens a page in each view, and returns what each view shows; screenshots are stored under
/// `name`.
pub(crate) fn look(page: &Path, name: &str) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/page/look.mjs");
    let (pictures, home) = (built("screenshots"), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(&pictures).unwrap();
    let mut node = Command::new("node");
    node.arg(script)
        .arg(page)
        .arg(tool_path(AXE))
        .arg(pictures.join(name))
        .arg(home.path());
    serde_json::from_slice(&tool(&mut node)).unwrap()
}

pub(crate) fn list<'a>(view: &'a Value, what: &str) -> &'a [Value] {
    view[what]
        .as_array()
        .unwrap_or_else(|| panic!("no {what}: {view}"))
}

pub(crate) fn text<'a>(view: &'a Value, what: &str) -> &'a str {
    view[what]
        .as_str()
        .unwrap_or_else(|| panic!("no {what}: {view}"))
}

pub(crate) fn named<'a>(views: &'a [Value], name: &str) -> &'a Value {
    views
        .iter()
        .find(|view| view["view"] == name)
        .unwrap_or_else(|| panic!("no view {name}"))
}

/// The faults that no page may have. Each is a line, so that one run reports all of them.
pub(crate) fn faults(views: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for view in views {
        let name = text(view, "view");
        let mut none = |what: &str| {
            let found = view[what].as_array().map_or(&[][..], |found| found);
            faults.extend(found.iter().map(|found| format!("{name}: {what}: {found}")));
        };
        // Console messages, dialogs, requests for other files, elements beyond the edge,
        // overlapping texts, and words broken into two lines.
        [
            "complaints",
            "dialogs",
            "foreign",
            "wider",
            "overlaps",
            "broken",
        ]
        .into_iter()
        .for_each(&mut none);
        // Accessibility: the findings of axe-core, and elements that the keyboard does not reach
        // visibly.
        ["violations", "missed", "unmarked", "outOfView", "stuck"]
            .into_iter()
            .for_each(&mut none);
        if name == "paper" {
            none("cut");
        }
        let requests = list(view, "requests");
        if requests.len() != 1
            || !requests[0]
                .as_str()
                .is_some_and(|url| url.starts_with("file:///"))
        {
            faults.push(format!("{name}: requests: {requests:?}"));
        }
        if view["width"].as_f64() > view["window"].as_f64() {
            faults.push(format!(
                "{name}: {} pixels wide, on {}",
                view["width"], view["window"]
            ));
        }
        if view["smallest"].as_f64().is_none_or(|size| size < 9.0) {
            faults.push(format!("{name}: letters of {} pixels", view["smallest"]));
        }
        if view["title"] == "" || view["language"] != "en" {
            faults.push(format!(
                "{name}: title {}, language {}",
                view["title"], view["language"]
            ));
        }
    }
    if text(named(views, "desk-light"), "text") != text(named(views, "no-script"), "text") {
        faults.push("it does not read the same without scripts".to_owned());
    }
    for place in ["phone", "desk"] {
        let back =
            |scheme: &str| brightness(text(named(views, &format!("{place}-{scheme}")), "back"));
        if back("light") < 600 || back("dark") > 200 {
            faults.push(format!("{place}: as bright by night as by day"));
        }
    }
    faults
}

/// The sum of the three components of a colour, as `rgb(21, 23, 26)`.
fn brightness(color: &str) -> u32 {
    let parts = color
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .trim_end_matches(')');
    parts
        .split(", ")
        .map(|part| part.parse::<u32>().unwrap_or_else(|_| panic!("{color}")))
        .sum()
}

/// Panics if a view has a fault, or if axe-core did not run.
pub(crate) fn sound(views: &[Value]) {
    let faults = faults(views);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let judged = views.iter().filter(|view| view["view"] != "no-script");
    for view in judged {
        for rule in [
            "color-contrast",
            "heading-order",
            "page-has-heading-one",
            "document-title",
            "landmark-one-main",
        ] {
            assert!(
                list(view, "passes").contains(&rule.into()),
                "{}: axe-core found nothing to apply {rule} to",
                view["view"]
            );
        }
    }
}
