//! Tests that the checks themselves find the faults of a page.

use super::*;

const WRONG: &str = r##"<!DOCTYPE html>
<html>
<head><title></title>
<style>body{background:#fff;color:#ccc} :focus{outline:none} .wide{width:2000px} .cut{width:9em;overflow:auto;white-space:nowrap}</style>
</head>
<body>
<h1>One</h1>
<h4>Four</h4>
<p class="wide">Wider than any window.</p>
<p style="font-size:5px">Small.</p>
<p style="width:1em;overflow-wrap:anywhere">Broken</p>
<p style="height:0;margin:0;overflow:visible">Beneath another text</p>
<div class="cut">What is cut off on paper, however long one looks at it.</div>
<a href="#here">A link</a>
<img src="http://fathom.invalid/a.png">
<script>console.error("something is wrong"); alert("executed"); document.body.append("made by a script")</script>
</body>
</html>"##;

#[test]
fn each_fault_of_a_page_is_reported() {
    if require(&NEEDS) {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("wrong.html");
        std::fs::write(&page, WRONG).unwrap();
        let views = look(&page, "wrong");
        let faults = faults(&views);
        for fault in [
            "desk-light: complaints: \"error: something is wrong\"",
            "desk-light: dialogs: \"executed\"",
            "desk-light: foreign: \"<img",
            "desk-light: requests: [",
            "phone-light: wider: \"<p class=\\\"wide\\\"",
            "phone-light: broken: \"Broken in <p",
            "phone-light: overlaps: \"'Beneath another text' and",
            "phone-light: unmarked: \"<a> A link\"",
            "phone-light: letters of 5 pixels",
            "phone-light: title \"\"",
            "phone-light: violations: \"color-contrast",
            "phone-light: violations: \"heading-order",
            "phone-light: violations: \"image-alt",
            "paper: cut: \"<div class=\\\"cut\\\"",
            "it does not read the same without scripts",
            "desk: as bright by night as by day",
        ] {
            assert!(
                faults.iter().any(|found| found.starts_with(fault)),
                "{fault} was not seen:\n{}",
                faults.join("\n")
            );
        }
        // Without scripts the page opens no dialogs.
        assert!(list(named(&views, "no-script"), "dialogs").is_empty());
    }
}
