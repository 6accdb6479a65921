//! Reader: numbers, sizes and bytes as msgpack has them, one after the other.
//!
//! Keeps: nothing is read behind the end, and no size is believed that what came could not have.

use crate::payload::encoding::Unsupported;

pub struct Reader<'a> {
    data: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Reader { data, at: 0 }
    }

    pub fn at_end(&self) -> bool {
        self.at == self.data.len()
    }

    pub fn at(&self) -> usize {
        self.at
    }

    /// Pass over a value: well-formed, and of at most `room` levels of containers.
    pub fn skip(&mut self, room: i32) -> Result<(), Unsupported> {
        let first = self.byte()?;
        let size = match first {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
            0xa0..=0xbf => (first & 0x1f) as usize,
            0xd9..=0xdb => self.unsigned(1 << (first - 0xd9))? as usize,
            0xc4..=0xc6 => self.unsigned(1 << (first - 0xc4))? as usize,
            0xcc..=0xcf => 1 << (first - 0xcc),
            0xd0..=0xd3 => 1 << (first - 0xd0),
            0xca => 4,
            0xcb => 8,
            _ => return self.skip_array(first, room),
        };
        self.take(size).map(|_| ())
    }

    fn skip_array(&mut self, first: u8, room: i32) -> Result<(), Unsupported> {
        if room <= 0 {
            return Err(Unsupported);
        }
        for _ in 0..self.array_behind(first)? {
            self.skip(room - 1)?;
        }
        Ok(())
    }

    pub(super) fn take(&mut self, size: usize) -> Result<&'a [u8], Unsupported> {
        let end = self.at.checked_add(size).filter(|end| *end <= self.data.len()).ok_or(Unsupported)?;
        let taken = &self.data[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Unsupported> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn unsigned(&mut self, bytes: usize) -> Result<u64, Unsupported> {
        Ok(self.take(bytes)?.iter().fold(0, |value, byte| value << 8 | *byte as u64))
    }

    /// The size in an array's header.
    pub fn array(&mut self) -> Result<usize, Unsupported> {
        let first = self.byte()?;
        self.array_behind(first)
    }

    pub(super) fn array_behind(&mut self, first: u8) -> Result<usize, Unsupported> {
        let size = match first {
            0x90..=0x9f => (first & 0x0f) as usize,
            0xdc => self.unsigned(2)? as usize,
            0xdd => self.unsigned(4)? as usize,
            _ => return Err(Unsupported),
        };
        // Every element has a byte at least: memory stays proportional to what came.
        if size > self.data.len() - self.at {
            Err(Unsupported)
        } else {
            Ok(size)
        }
    }

    /// A whole number that is not negative.
    pub fn number(&mut self) -> Result<u64, Unsupported> {
        match self.byte()? {
            small @ 0x00..=0x7f => Ok(small as u64),
            first @ 0xcc..=0xcf => self.unsigned(1 << (first - 0xcc)),
            _ => Err(Unsupported),
        }
    }

    /// The bytes of a bin.
    pub fn bytes(&mut self) -> Result<&'a [u8], Unsupported> {
        let size = match self.byte()? {
            0xc4 => self.unsigned(1)?,
            0xc5 => self.unsigned(2)?,
            0xc6 => self.unsigned(4)?,
            _ => return Err(Unsupported),
        };
        self.take(size as usize)
    }

    /// A whole number of 64 bits.
    pub fn integer(&mut self) -> Result<i64, Unsupported> {
        match self.byte()? {
            small @ 0x00..=0x7f => Ok(small as i64),
            small @ 0xe0..=0xff => Ok(small as i8 as i64),
            first @ 0xcc..=0xcf => {
                i64::try_from(self.unsigned(1 << (first - 0xcc))?).map_err(|_| Unsupported)
            }
            0xd0 => Ok(self.unsigned(1)? as i8 as i64),
            0xd1 => Ok(self.unsigned(2)? as i16 as i64),
            0xd2 => Ok(self.unsigned(4)? as i32 as i64),
            0xd3 => Ok(self.unsigned(8)? as i64),
            _ => Err(Unsupported),
        }
    }
}
