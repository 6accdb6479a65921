//! Matching: which keys are meant, and where the next of them may stand. The mirror of `core/protocol/matching.py`.

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

/// The head of a text in msgpack: texts are in the order of their lengths.
fn head_of(length: u64) -> Vec<u8> {
    match length {
        0..=0x1f => vec![0xa0 | length as u8],
        0x20..=0xff => vec![0xd9, length as u8],
        0x100..=0xffff => [&[0xda], &(length as u16).to_be_bytes()[..]].concat(),
        _ => [&[0xdb], &(length as u32).to_be_bytes()[..]].concat(),
    }
}

impl Matching<'_> {
    /// The least key that may be meant and is not below a canonical one; None: those above it are not either. Texts that
    /// begin alike stand in as many places as they have lengths.
    pub fn least(&self, key: &[u8]) -> Option<Vec<u8>> {
        let text = self.text.unwrap_or_default();
        let of_length = |length: u64| {
            let length = length.max(text.len() as u64);
            (length <= u64::from(u32::MAX)).then(|| [self.head, &head_of(length), text].concat())
        };
        let first = if self.text.is_some() { of_length(0)? } else { self.head.to_vec() };
        if key < &first[..] {
            return Some(first);
        }
        let rest = key.strip_prefix(self.head)?;
        if self.text.is_none() {
            return Some(key.to_vec());
        }
        let begins = match rest.first()? {
            0xa0..=0xbf => 1,
            0xc0..=0xd8 => return of_length(0x20),
            0xd9 => 2,
            0xda => 3,
            0xdb => 5,
            _ => return None,
        };
        let length = match rest.get(1..begins)? {
            [] => u64::from(rest[0] & 0x1f),
            bytes => bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        let content = &rest[begins..];
        if content.starts_with(text) {
            return Some(key.to_vec());
        }
        of_length(length + u64::from(content > text))
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
    fn the_least_key_that_may_be_meant_is_no_further_than_the_next_that_is() {
        let texts = Matching { head: b"\x92", text: Some(b"an") };
        for (key, least) in [
            (b"".as_slice(), Some(b"\x92\xa2an".as_slice())),
            (b"\x92\xa2am", Some(b"\x92\xa2an")),
            (b"\x92\xa3ann", Some(b"\x92\xa3ann")),
            (b"\x92\xa3bob", Some(b"\x92\xa4an")),
            (b"\x92\xbfb", Some(b"\x92\xd9\x20an")),
            (b"\x92\xc0", Some(b"\x92\xd9\x20an")),
            (b"\x92\xd9\xffb", Some(b"\x92\xda\x01\x00an")),
            (b"\x92\xda\xff\xffb", Some(b"\x92\xdb\x00\x01\x00\x00an")),
            (b"\x92\xdb\xff\xff\xff\xffb", None),
            (b"\x92\xdc", None),
            (b"\x93", None),
        ] {
            assert_eq!(texts.least(key).as_deref(), least, "{key:?}");
        }
    }

    #[test]
    fn without_a_text_only_the_head_counts() {
        let all = Matching { head: b"", text: None };
        assert!(all.fits(b"") && all.fits(b"\x07"));
    }
}
