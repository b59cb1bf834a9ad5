//! Tests of the page of `fathom compare --html`.

use super::*;
use crate::support::run::args;
use crate::support::{fathom, run};

#[test]
fn the_page_has_the_ratios_and_their_figures() {
    if require(&NEEDS) {
        let dir = tempfile::tempdir().unwrap();
        let (page, data) = (
            dir.path().join("page.html"),
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../account/data"),
        );
        let figure = |number: u32| data.join(format!("getmnt-figure{number}.csv"));
        run(&mut fathom(args![
            "compare",
            figure(7),
            figure(10),
            "--html",
            page
        ]))
        .exits(0);
        let views = look(&page, "compare");
        sound(&views);
        for view in &views {
            let text = text(view, "text");
            for mean in ["10.38", "13.10", "5.03", "3.72", "3.65", "3.08"] {
                assert!(text.contains(mean), "{}: no {mean}: {text}", view["view"]);
            }
            assert_eq!(view["figures"], 2);
        }
        // The tables are wider than a phone: each can be focused and scrolled by the keyboard.
        assert!(
            list(named(&views, "phone-light"), "stops").len() >= 2,
            "{views:?}"
        );
    }
}
