//! Matching: which keys of a walk are meant. The mirror of `core/dataflow/walk.py`.

/// Those that begin with `head`, and then have a text that begins with `text`, if there is one.
pub struct Matching<'a> {
    pub head: &'a [u8],
    pub text: Option<&'a [u8]>,
}

impl Matching<'_> {
    pub fn fits(&self, key: &[u8]) -> bool {
        let Some(rest) = key.strip_prefix(self.head) else { return false };
        let Some(text) = self.text else { return true };
        // the head of a text in msgpack
        let begins = match rest.first() {
            Some(0xa0..=0xbf) => 1,
            Some(0xd9) => 2,
            Some(0xda) => 3,
            Some(0xdb) => 5,
            _ => return false,
        };
        rest.get(begins..).is_some_and(|content| content.starts_with(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_known_by_its_beginning_however_long_it_is() {
        let texts = Matching { head: b"\x92", text: Some(b"an") };
        let long = [b"\x92\xd9\x21".as_slice(), &b"an".repeat(16), b"n"].concat();
        for (key, fits) in [
            (b"\x92\xa3ann".as_slice(), true),
            (&long, true),
            (b"\x92\xa1a", false),
            (b"\x92\x07", false),
            (b"\x92", false),
            (b"\xa3ann", false),
        ] {
            assert_eq!(texts.fits(key), fits, "{key:?}");
        }
    }

    #[test]
    fn without_a_text_only_the_head_counts() {
        let all = Matching { head: b"", text: None };
        assert!(all.fits(b"") && all.fits(b"\x07"));
    }
}
