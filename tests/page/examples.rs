//! The pages of the surveys that `cmd/survey/tests/machines.rs` makes by hand: a laptop, a server with
//! 200 mounts of which three hang, and an ordinary user. The unit tests of `fathom` write them.

use super::*;

fn is_readable(name: &str, words: &[&str]) {
    let page = built(format!("page-of-{name}.html"));
    if !require(&NEEDS) {
        return;
    }
    if !page.exists() {
        assert!(std::env::var_os("CI").is_none(), "no {}", page.display());
        eprintln!("SKIPPED: run cargo test -p fathom --bin fathom pages_of_three_machines");
        return;
    }
    let views = look(&page, name);
    sound(&views);
    let text = text(named(&views, "phone-light"), "text");
    for word in words {
        assert!(text.contains(word), "no {word}: {text}");
    }
}

#[test]
fn the_page_of_a_laptop_is_readable() {
    let words = [
        "1 warning",
        "/home is nearly full",
        "usr/share",
        "16 pseudo file systems",
    ];
    is_readable("laptop", &words);
}

#[test]
fn the_page_of_a_server_is_readable() {
    let words = [
        "2 errors",
        "3 mounts not answering",
        "/srv/archive is full",
        "The tree changed during the comparison",
    ];
    is_readable("server", &words);
}

#[test]
fn the_page_of_an_ordinary_user_is_readable() {
    is_readable("user", &["Not run as root", "src/linux"]);
}
