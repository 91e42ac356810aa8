//! Text that somebody else wrote, on its way to a terminal.
//!
//! A terminal obeys control characters: an agent's name could clear the screen, rewrite lines above it or paste. Others
//! are invisible or turn text around, so that a reader sees another name than is there. All of them are shown as their
//! escapes.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with every character visible.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(hides) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            hidden if hides(hidden) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(hidden));
            }
            plain => shown.push(plain),
        }
    }
    shown.into()
}

/// The same for a JSON document: the escapes are JSON's own, so that it says the same.
pub(super) fn visible_json(document: &str) -> Cow<'_, str> {
    // Line ends between values are the document's own; inside strings they are escaped already.
    let hides = |character: char| character != '\n' && hides(character);
    if !document.contains(hides) {
        return document.into();
    }
    let mut shown = String::with_capacity(document.len() + 16);
    for character in document.chars() {
        if hides(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    shown.into()
}

/// Controls (C0, DEL, C1), what turns the direction of writing, and what takes no space.
fn hides(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_of_any_script_stays() {
        for text in ["", "Frank", "Zoë Ångström", "李雷", "עברית", "👩", "a\u{301}"] {
            assert_eq!(visible(text), text);
            assert_eq!(visible_json(text), text);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_or_hide_is_shown() {
        assert_eq!(visible("a\x1b[2Jb\r\n\tc\u{9b}d\x7f"), r"a\u{1b}[2Jb\r\n\tc\u{9b}d\u{7f}");
        assert_eq!(
            visible("\u{202e}nimda\u{2066}\u{200b}\u{feff}\u{e0041}"),
            r"\u{202e}nimda\u{2066}\u{200b}\u{feff}\u{e0041}"
        );
    }

    #[test]
    fn a_json_document_still_says_the_same() {
        let value = serde_json::json!({ "name": "\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{e0041}\"\\\n" });
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let shown = visible_json(&text);
        assert!(shown.chars().all(|character| character == '\n' || !hides(character)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
    }
}
