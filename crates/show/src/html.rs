//! Pages that need nothing beside themselves: no network, no script; light and dark, on paper and
//! on a phone. How they look is in `templates/style.css`, where each pair of colours has a contrast
//! of 7 or more.

use askama::Template;

/// Text as HTML and SVG take it, also within quotes.
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

/// What is wider than a phone is moved within itself, also with the keyboard.
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
