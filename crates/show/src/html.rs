//! Self-contained pages without network access or scripts, for light and dark mode, paper and
//! phones. All pairs of colours in `templates/style.css` have a contrast of 7 or more.

use askama::Template;

/// Escapes text for HTML and SVG, also within quotes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[derive(Template)]
#[template(path = "base.html")]
struct Shell<'a> {
    title: &'a str,
    body: &'a str,
}

/// A page with this `<title>` whose `<body>` is `body`, which is HTML already.
pub fn shell(title: &str, body: &str) -> String {
    // Rendering into a string cannot fail.
    Shell { title, body }.render().unwrap_or_default()
}

/// A page with its title as the heading above `body`, which is HTML already.
pub fn page(title: &str, body: &str) -> String {
    let heading = escape(title);
    shell(
        title,
        &format!("<main>\n<h1>{heading}</h1>\n{body}\n</main>"),
    )
}

/// A region that scrolls horizontally if wider than the screen, also by keyboard.
pub fn scroll(label: &str, inner: &str) -> String {
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n{inner}</div>\n",
        escape(label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_fetches_nothing() {
        let page = page("a & <b>", &scroll("\"x\"", "y\n"));
        assert!(
            page.contains("<title>a &#38; &#60;b&#62;</title>")
                && page.contains("aria-label=\"&quot;x&quot;\"")
        );
        for word in [
            "http:", "https:", "<script", "<link", "url(", "@import", "src=",
        ] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
