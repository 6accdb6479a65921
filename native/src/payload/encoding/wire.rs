//! Wire: numbers, texts and headers as msgpack has them. Whole numbers and sizes are in their shortest form
//! and there is one NaN, so that equal payloads have equal bytes.

pub fn put_int(out: &mut Vec<u8>, value: i64) {
    if value >= 0 {
        return put_unsigned(out, value as u64);
    }
    if value >= -32 {
        out.push(value as u8);
    } else if value >= i8::MIN as i64 {
        out.extend_from_slice(&[0xd0, value as u8]);
    } else if value >= i16::MIN as i64 {
        out.push(0xd1);
        out.extend_from_slice(&(value as i16).to_be_bytes());
    } else if value >= i32::MIN as i64 {
        out.push(0xd2);
        out.extend_from_slice(&(value as i32).to_be_bytes());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    if value < 128 {
        out.push(value as u8);
    } else if value <= u8::MAX as u64 {
        out.extend_from_slice(&[0xcc, value as u8]);
    } else if value <= u16::MAX as u64 {
        out.push(0xcd);
        out.extend_from_slice(&(value as u16).to_be_bytes());
    } else if value <= u32::MAX as u64 {
        out.push(0xce);
        out.extend_from_slice(&(value as u32).to_be_bytes());
    } else {
        out.push(0xcf);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// There is one NaN.
pub fn put_float(out: &mut Vec<u8>, value: f64) {
    let canonical = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
    out.push(0xcb);
    out.extend_from_slice(&canonical.to_be_bytes());
}

fn put_sized(out: &mut Vec<u8>, size: usize, tags: [u8; 3]) {
    if size <= u8::MAX as usize && tags[0] != 0 {
        out.extend_from_slice(&[tags[0], size as u8]);
    } else if size <= u16::MAX as usize {
        out.push(tags[1]);
        out.extend_from_slice(&(size as u16).to_be_bytes());
    } else {
        out.push(tags[2]);
        out.extend_from_slice(&(size as u32).to_be_bytes());
    }
}

pub fn put_array(out: &mut Vec<u8>, size: usize) {
    if size < 16 {
        out.push(0x90 | size as u8);
    } else {
        put_sized(out, size, [0, 0xdc, 0xdd]);
    }
}

pub fn put_str(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() < 32 {
        out.push(0xa0 | text.len() as u8);
    } else {
        put_sized(out, text.len(), [0xd9, 0xda, 0xdb]);
    }
    out.extend_from_slice(text);
}

pub fn put_bytes(out: &mut Vec<u8>, data: &[u8]) {
    put_sized(out, data.len(), [0xc4, 0xc5, 0xc6]);
    out.extend_from_slice(data);
}
