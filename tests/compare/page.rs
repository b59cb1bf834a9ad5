//! Tests of the HTML page.

use super::*;

fn page(files: &[&Path]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let ran = run(fathom(["compare"]).args(files).arg("--html").arg(&page));
    assert!(ran.code() < 2, "{ran}");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing lies beside it"
    );
    std::fs::read_to_string(page).unwrap()
}

/// The elements of a page with their texts. Checks that they are closed in order.
fn elements(page: &str) -> Vec<String> {
    const EMPTY: [&str; 4] = ["meta", "!DOCTYPE", "line", "circle"];
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    let body = page.split_once("<style>").unwrap();
    let body = format!("{}{}", body.0, body.1.split_once("</style>").unwrap().1);
    for tag in body.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap()
            .to_owned();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_ref(), Some(&name), "{seen:?}");
        } else if !EMPTY.contains(&&name[..]) {
            open.push(name.clone());
        }
        seen.push(tag.to_owned());
    }
    assert!(open.is_empty(), "{open:?}");
    seen
}

#[test]
fn page_is_complete_and_self_contained() {
    let page = page(&[&figure(7), &figure(10)]);
    let elements = elements(&page);
    let count = |begin: &str| {
        elements
            .iter()
            .filter(|element| element.starts_with(begin))
            .count()
    };
    assert_eq!(
        (
            count("table"),
            count("figure"),
            count("h1"),
            count("h2"),
            count("caption")
        ),
        (4, 2, 1, 2, 4)
    );
    for word in [
        "http:", "https:", "<script", "<link", "url(", "@import", " src=", " href=",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    for mean in ["10.38", "13.10", "5.03", "3.72", "3.65", "3.08"] {
        assert!(page.contains(&format!("<td>{mean}</td>")), "{mean}");
    }
}

#[test]
fn page_is_accessible_and_has_styles_for_phone_print_and_dark() {
    let page = page(&[&figure(7)]);
    for part in [
        "<html lang=\"en\">",
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
        "prefers-color-scheme:dark",
        "@media print",
        "overflow-x: auto",
        "<main>",
        "<th scope=\"col\"",
        "<th scope=\"row\"",
        "<p class=\"title\">Ratios getmnt1/getmnt2</p>",
        "<span class=\"label\">real</span> <span class=\"value\">median 7.89, from 1.95 to 39.17</span>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The labels are text of the page; a screen reader skips the drawings beside them.
    let drawn = page.matches("<svg ").count();
    assert_eq!(
        (drawn, page.matches(" aria-hidden=\"true\"").count()),
        (4, 4)
    );
    // The figure has no viewBox, which would make its text smaller on a phone. All drawings lie
    // within the figure.
    elements(&page);
    assert!(!page.contains("viewBox"), "{page}");
    for attribute in [" x=\"", "cx=\"", "x1=\""] {
        for value in page.split(attribute).skip(1) {
            let percent = value.split('"').next().unwrap().strip_suffix('%').unwrap();
            let x: f64 = percent.parse().unwrap();
            assert!((0.0..=100.0).contains(&x), "{x}");
        }
    }
}

#[test]
fn names_in_a_file_are_escaped() {
    let (_dir, path) = file(
        "runs.csv",
        "host,\"<i>\"\"&'</svg>_real\",b_real\n<script>alert(1)</script>,4,2\n",
    );
    let page = page(&[&path]);
    elements(&page);
    assert!(
        !page.contains("<script") && !page.contains("<i>") && page.contains("&lt;script&gt;"),
        "{page}"
    );
}

#[test]
fn page_is_replaced_atomically() {
    let (dir, page) = file("page.html", "before");
    run(&mut fathom(args![
        "compare",
        "/no/such/file",
        "--html",
        page
    ]))
    .refused();
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "before");
    run(&mut fathom(args!["compare", figure(7), "--html", page])).exits(0);
    assert!(
        std::fs::read_to_string(&page)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
