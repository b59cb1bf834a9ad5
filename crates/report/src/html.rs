//! Pages that need nothing beside themselves: no network, no script; light and dark, on paper and on a phone.

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

/// The colours and the type. Each pair of colours has a contrast of 7 or more.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1b;--back:#fff;--soft:#555;--line:#ccc;--mark:#0a4f96}
@media (prefers-color-scheme:dark){:root{--ink:#e8e8e8;--back:#15171a;--soft:#b0b5bd;--line:#444a52;--mark:#8cc4ff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back)}
h1{font-size:1.5rem;line-height:1.2}
h2{font-size:1.2rem;line-height:1.3;margin-top:2rem;overflow-wrap:anywhere}
p{max-width:40rem}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
caption{text-align:left;color:var(--soft);padding-bottom:.3rem}
th,td{padding:.15rem .6rem;text-align:right;white-space:nowrap}
th:first-child,td:first-child{padding-left:0}
thead th{border-bottom:2px solid var(--line)}
tbody tr{border-bottom:1px solid var(--line)}
tbody th{font-weight:normal}
.left{text-align:left}
figure{margin:1rem 0;max-width:36rem}
figcaption{color:var(--soft);font-size:.9rem}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--ink);font:11px system-ui,sans-serif;stroke:var(--back);stroke-width:3px;paint-order:stroke}
svg .soft{fill:var(--soft)}
svg .line{stroke:var(--line)}
svg .strong{stroke:var(--ink)}
svg circle{fill:var(--mark);fill-opacity:.75}
@media print{
:root{--ink:#000;--back:#fff;--soft:#333;--line:#999;--mark:#000}
body{max-width:none;padding:0;font-size:10pt}
.scroll{overflow:visible}
table{font-size:7pt}
th,td{padding:.1rem .3rem}
thead{display:table-header-group}
tr,figure{break-inside:avoid}
h2,caption{break-after:avoid}
}
";

/// A page: its title, and what is in it.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// What is wider than a phone is moved within itself, also with the keyboard.
pub fn scroll(label: &str, inner: &str) -> String {
    format!("<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n{inner}</div>\n", escape(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_fetches_nothing() {
        let page = page("a & <b>", &scroll("\"x\"", "y\n"));
        assert!(page.contains("<title>a &amp; &lt;b&gt;</title>") && page.contains("aria-label=\"&quot;x&quot;\""));
        for word in ["http:", "https:", "<script", "<link", "url(", "@import", "src="] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
