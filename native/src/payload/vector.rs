//! fs.Vector: its append, its encoding, and its deltas; the mirror of `model/collections/vector.py`, on the
//! same Python objects.

use crate::payload::decoding::Reader;
use crate::payload::encoding::{self, Unsupported};
use crate::payload::plans::MAX_DEPTH;
use crate::python::objects::{self, Object};
use crate::python::slots;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple, PyType};
use std::cell::UnsafeCell;

const BITS: usize = 5;
const WIDTH: usize = 1 << BITS;
/// `vector.VECTOR_TAG`.
pub const VECTOR_TAG: u64 = 1;

struct Layout {
    class: Py<PyType>,
    size: isize,
    level: isize,
    root: isize,
    tail: isize,
    counts: isize,
    /// `Vector.append` in Python, for what is refused.
    append: Py<PyAny>,
    /// `trie.pushed` and `heights.with_height`.
    pushed: Py<PyAny>,
    with_height: Py<PyAny>,
}

struct Guarded(UnsafeCell<Option<Layout>>);
// SAFETY: set once, under the GIL, before any Vector exists.
unsafe impl Sync for Guarded {}
static LAYOUT: Guarded = Guarded(UnsafeCell::new(None));

fn layout() -> Option<&'static Layout> {
    // SAFETY: see Guarded.
    unsafe { (*LAYOUT.0.get()).as_ref() }
}

struct MethodDef(UnsafeCell<ffi::PyMethodDef>);
// SAFETY: never changed.
unsafe impl Sync for MethodDef {}
static APPEND: MethodDef = MethodDef(UnsafeCell::new(ffi::PyMethodDef {
    ml_name: c"append".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer { PyCFunction: append },
    ml_flags: ffi::METH_O,
    ml_doc: c"With `value` at the end.".as_ptr(),
}));

/// Give `class` (fs.Vector) the native `append`, and know its instances from now on.
#[pyfunction]
pub fn install_vector(
    class: &Bound<'_, PyType>,
    append: Py<PyAny>,
    pushed: Py<PyAny>,
    with_height: Py<PyAny>,
) -> PyResult<()> {
    let py = class.py();
    let offset = |name: &str| {
        let name = pyo3::types::PyString::new(py, name).into_any();
        slots::offset(class.as_any(), &name)
            .ok_or_else(|| PyTypeError::new_err(format!("Vector has no slot {name}")))
    };
    let made = Layout {
        class: class.clone().unbind(),
        size: offset("_size")?,
        level: offset("_level")?,
        root: offset("_root")?,
        tail: offset("_tail")?,
        counts: offset("_counts")?,
        append,
        pushed,
        with_height,
    };
    // SAFETY: under the GIL; the method's definition is static.
    unsafe {
        *LAYOUT.0.get() = Some(made);
        let method = ffi::PyDescr_NewMethod(class.as_ptr() as *mut ffi::PyTypeObject, APPEND.0.get());
        class.setattr("append", Bound::from_owned_ptr_or_err(py, method)?)
    }
}

/// Is `object` an fs.Vector?
#[inline]
pub fn is_vector(object: Object) -> bool {
    // SAFETY: reading a type is always allowed under the GIL.
    layout().is_some_and(|layout| unsafe { ffi::Py_TYPE(object) as Object == layout.class.as_ptr() })
}

/// SAFETY: `object` is a tuple that is alive.
unsafe fn len(object: Object) -> usize {
    objects::tuple_size(object) as usize
}

/// SAFETY: as `len`, and `place` is inside.
unsafe fn item(object: Object, place: usize) -> Object {
    objects::tuple_item(object, place as isize)
}

/// A new reference.
/// SAFETY: `object` is alive, and the GIL is held.
unsafe fn reference(object: Object) -> Object {
    ffi::Py_INCREF(object);
    object
}

/// The method itself.
/// SAFETY: Python calls it, with a Vector and any object.
unsafe extern "C" fn append(this: Object, value: Object) -> Object {
    let py = Python::assume_attached();
    match appended(py, this, value) {
        Ok(made) => made,
        Err(error) => {
            error.restore(py);
            std::ptr::null_mut()
        }
    }
}

/// How many values of a Vector of this size are in its tail.
fn in_tail(size: usize) -> usize {
    if size == 0 {
        0
    } else {
        (size - 1) % WIDTH + 1
    }
}

/// A value of a tail, which is a list that versions share.
/// SAFETY: `tail` is a list that is alive, and `place` is inside.
unsafe fn tail_item(tail: Object, place: usize) -> Object {
    objects::list_item(tail, place as isize)
}

/// `Vector.append`, as a new reference.
/// SAFETY: `this` is a Vector, `value` any object; both are alive.
unsafe fn appended(py: Python<'_>, this: Object, value: Object) -> PyResult<Object> {
    let layout = layout().expect("a Vector's append is installed with its layout");
    let given = Bound::from_borrowed_ptr(py, value);
    let Ok(height) = encoding::height(&given, MAX_DEPTH - 1) else {
        return layout
            .append
            .bind(py)
            .call1((Bound::from_borrowed_ptr(py, this), given))
            .map(Bound::into_ptr);
    };
    let (tail, counts) = (slots::get(this, layout.tail), slots::get(this, layout.counts));
    let size = ffi::PyLong_AsSsize_t(slots::get(this, layout.size));
    let counts = counted(py, layout, counts, height)?;
    let length = in_tail(size as usize);
    let (level, root, longer) = if length < WIDTH {
        let shared = objects::list_size(tail) as usize == length;
        let longer = if shared { reference(tail) } else { ffi::PyList_GetSlice(tail, 0, length as isize) };
        (reference(slots::get(this, layout.level)), reference(slots::get(this, layout.root)), longer)
    } else {
        let leaves = (size as usize >> BITS) - 1;
        let (old_level, old_root) = (slots::get(this, layout.level), slots::get(this, layout.root));
        let leaf = Bound::from_owned_ptr(py, ffi::PyList_AsTuple(tail));
        let arguments =
            (Bound::from_borrowed_ptr(py, old_level), Bound::from_borrowed_ptr(py, old_root), leaves, leaf);
        let (level, root): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            layout.pushed.bind(py).call1(arguments)?.extract()?;
        (level.into_ptr(), root.into_ptr(), ffi::PyList_New(0))
    };
    if longer.is_null() || ffi::PyList_Append(longer, value) != 0 {
        return Err(PyErr::fetch(py));
    }
    let made = ffi::PyType_GenericAlloc(layout.class.as_ptr() as *mut ffi::PyTypeObject, 0);
    if made.is_null() {
        return Err(PyErr::fetch(py));
    }
    slots::fill(made, layout.size, ffi::PyLong_FromSsize_t(size + 1));
    slots::fill(made, layout.level, level);
    slots::fill(made, layout.root, root);
    slots::fill(made, layout.tail, longer);
    slots::fill(made, layout.counts, counts);
    Ok(made)
}

/// `heights.with_height`, as a new reference.
/// SAFETY: `counts` is a tuple that is alive.
unsafe fn counted(py: Python<'_>, layout: &Layout, counts: Object, height: i32) -> PyResult<Object> {
    if height == 0 {
        return Ok(reference(counts));
    }
    if height == 1 && len(counts) <= 1 {
        let before = if len(counts) == 1 { ffi::PyLong_AsSsize_t(item(counts, 0)) } else { 0 };
        let made = ffi::PyTuple_New(1);
        objects::fill_tuple(made, 0, ffi::PyLong_FromSsize_t(before + 1));
        return Ok(made);
    }
    layout.with_height.bind(py).call1((Bound::from_borrowed_ptr(py, counts), height)).map(Bound::into_ptr)
}

/// A Vector of these values, as its constructor makes it; Unsupported if they do not fit.
pub fn of_values<'py>(
    py: Python<'py>,
    values: &[Bound<'py, PyAny>],
) -> Result<Bound<'py, PyAny>, Unsupported> {
    let layout = layout().ok_or(Unsupported)?;
    let mut counts: Vec<usize> = Vec::new();
    for value in values {
        let height = encoding::height(value, MAX_DEPTH - 1)? as usize;
        if height > counts.len() {
            counts.resize(height, 0);
        }
        if height > 0 {
            counts[height - 1] += 1;
        }
    }
    let in_trie = values.len() - in_tail(values.len());
    let (level, root) = built(py, &values[..in_trie])?;
    let failed = |_| Unsupported;
    let size = values.len().into_pyobject(py).map_err(|_| Unsupported)?;
    let level = level.into_pyobject(py).map_err(|_| Unsupported)?;
    let tail = PyList::new(py, &values[in_trie..]).map_err(failed)?;
    let counts = PyTuple::new(py, counts).map_err(failed)?;
    // SAFETY: a Vector has no `__new__` of its own, and its empty slots are filled with what its constructor
    // puts there.
    unsafe {
        let made = ffi::PyType_GenericAlloc(layout.class.as_ptr() as *mut ffi::PyTypeObject, 0);
        if made.is_null() {
            ffi::PyErr_Clear();
            return Err(Unsupported);
        }
        slots::fill(made, layout.size, size.into_ptr());
        slots::fill(made, layout.level, level.into_ptr());
        slots::fill(made, layout.root, root.into_ptr());
        slots::fill(made, layout.tail, tail.into_ptr());
        slots::fill(made, layout.counts, counts.into_ptr());
        Ok(Bound::from_owned_ptr(py, made))
    }
}

/// `trie.built` of full leaves.
fn built<'py>(
    py: Python<'py>,
    values: &[Bound<'py, PyAny>],
) -> Result<(usize, Bound<'py, PyTuple>), Unsupported> {
    let tuples = |objects: &[Bound<'py, PyAny>]| -> Result<Vec<Bound<'py, PyAny>>, Unsupported> {
        objects
            .chunks(WIDTH)
            .map(|part| PyTuple::new(py, part).map(Bound::into_any).map_err(|_| Unsupported))
            .collect()
    };
    let (mut nodes, mut level) = (tuples(values)?, 1);
    while nodes.len() > WIDTH {
        (nodes, level) = (tuples(&nodes)?, level + 1);
    }
    Ok((level, PyTuple::new(py, nodes).map_err(|_| Unsupported)?))
}

/// Is this the class of Vectors?
pub fn is_class(class: &Py<PyType>) -> bool {
    layout().is_some_and(|layout| class.as_ptr() == layout.class.as_ptr())
}

/// The Vector of a full state and deltas that all append, as `reduce.decoded` gives it; None for whatever is
/// not that.
#[pyfunction]
pub fn restored<'py>(stored: &Bound<'py, PyTuple>) -> Option<Bound<'py, PyAny>> {
    let py = stored.py();
    let mut values = Vec::new();
    for (place, part) in stored.iter().enumerate() {
        let mut reader = Reader::new(part.cast::<PyBytes>().ok()?.as_bytes());
        let count =
            if place == 0 { whole(&mut reader) } else { appending(&mut reader, values.len()) }.ok()?;
        for _ in 0..count {
            values.push(reader.value(py, MAX_DEPTH - 1).ok()?);
        }
        if !reader.at_end() {
            return None;
        }
    }
    of_values(py, &values).ok()
}

/// How many values stand behind the header of a Vector.
pub fn whole(reader: &mut Reader<'_>) -> Result<usize, Unsupported> {
    let size = reader.array()?;
    if size > 0 && reader.number()? == VECTOR_TAG {
        Ok(size - 1)
    } else {
        Err(Unsupported)
    }
}

/// How many values stand behind the header of a delta that appends to a Vector of `before` (see
/// `reduce::appended`).
pub fn appending(reader: &mut Reader<'_>, before: usize) -> Result<usize, Unsupported> {
    let shape = reader.array()? == 6 && reader.number()? == 1 && reader.number()? == before as u64;
    let after = reader.number()?;
    let count = if shape && reader.array()? == 0 && reader.array()? == 0 {
        reader.array()?
    } else {
        return Err(Unsupported);
    };
    if after == (before + count) as u64 {
        Ok(count)
    } else {
        Err(Unsupported)
    }
}

/// How deep a Vector nests, if it fits `room`.
/// SAFETY: `object` is a Vector that is alive.
pub unsafe fn height(object: Object, room: i32) -> Result<i32, Unsupported> {
    let layout = layout().ok_or(Unsupported)?;
    let counts = len(slots::get(object, layout.counts)) as i32;
    if counts >= room {
        Err(Unsupported)
    } else {
        Ok(counts + 1)
    }
}

/// Call `each` with every value from place `start` on.
/// SAFETY: `object` is a Vector that is alive, and `each` does not change it.
pub unsafe fn values_from(
    object: Object,
    start: usize,
    each: &mut dyn FnMut(Object) -> Result<(), Unsupported>,
) -> Result<(), Unsupported> {
    let layout = layout().ok_or(Unsupported)?;
    let (root, tail) = (slots::get(object, layout.root), slots::get(object, layout.tail));
    let level = ffi::PyLong_AsSsize_t(slots::get(object, layout.level)) as usize;
    let length = in_tail(size(object)?);
    let in_trie = size(object)? - length;
    if start < in_trie {
        below(root, level, 0, start, each)?;
    }
    for place in start.saturating_sub(in_trie)..length {
        each(tail_item(tail, place))?;
    }
    Ok(())
}

/// The values of a node whose first is at `first`, from `start` on. Level 0 is a leaf.
/// SAFETY: `node` is a tuple of a Vector's trie, at this level, and alive.
unsafe fn below(
    node: Object,
    level: usize,
    first: usize,
    start: usize,
    each: &mut dyn FnMut(Object) -> Result<(), Unsupported>,
) -> Result<(), Unsupported> {
    let span = 1 << (BITS * level);
    for place in 0..len(node) {
        let at = first + place * span;
        if at + span <= start {
            continue;
        }
        if level == 0 {
            each(item(node, place))?
        } else {
            below(item(node, place), level - 1, at, start, each)?
        }
    }
    Ok(())
}

/// SAFETY: `object` is a Vector that is alive.
pub unsafe fn size(object: Object) -> Result<usize, Unsupported> {
    Ok(ffi::PyLong_AsSsize_t(slots::get(object, layout().ok_or(Unsupported)?.size)) as usize)
}

/// Does `new` begin with the very objects that `old` holds? Structure that both share is not looked into.
/// SAFETY: both are Vectors that are alive.
pub unsafe fn grew(old: Object, new: Object) -> Result<bool, Unsupported> {
    let layout = layout().ok_or(Unsupported)?;
    let (before, after) = (size(old)?, size(new)?);
    if before > after {
        return Ok(false);
    }
    let (old_tail, new_tail) = (slots::get(old, layout.tail), slots::get(new, layout.tail));
    let (old_trie, new_trie) = (before - in_tail(before), after - in_tail(after));
    let old_level = ffi::PyLong_AsSsize_t(slots::get(old, layout.level)) as usize;
    let mut level = ffi::PyLong_AsSsize_t(slots::get(new, layout.level)) as usize;
    let mut root = slots::get(new, layout.root);
    if old_trie > 0 {
        let mut first = root;
        for _ in old_level..level {
            first = item(first, 0);
        }
        if !begins(slots::get(old, layout.root), first, old_level) {
            return Ok(false);
        }
    }
    if new_trie > old_trie {
        while level > 0 {
            root = item(root, old_trie >> (BITS * level) & (WIDTH - 1));
            level -= 1;
        }
        return Ok((0..in_tail(before)).all(|place| tail_item(old_tail, place) == item(root, place)));
    }
    Ok(old_tail == new_tail
        || (0..in_tail(before)).all(|place| tail_item(old_tail, place) == tail_item(new_tail, place)))
}

/// Are the values of `old` the first ones of `new`, node by node?
/// SAFETY: as `below`, of both.
unsafe fn begins(old: Object, new: Object, level: usize) -> bool {
    if old == new {
        return true;
    }
    if len(old) > len(new) {
        return false;
    }
    (0..len(old)).all(|place| {
        let (one, other) = (item(old, place), item(new, place));
        one == other || (level > 0 && begins(one, other, level - 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyo3::ffi::c_str;
    use pyo3::types::PyDict;
    use std::ffi::CStr;

    /// As much of `model/collections/vector.py` as the kernel calls.
    const PYTHON: &CStr = c_str!(
        "
class Vector:
    __slots__ = ('_size', '_level', '_root', '_tail', '_counts')

def pushed(level, root, leaves, leaf):
    if leaves == 32 ** level:
        return level + 1, (root, path(level, leaf))
    return level, put(level, root, leaves, leaf)

def path(level, leaf):
    return leaf if level == 0 else (path(level - 1, leaf),)

def put(level, node, leaves, leaf):
    if level == 1:
        return (*node, leaf)
    place, inside = divmod(leaves, 32 ** (level - 1))
    if place == len(node):
        return (*node, path(level - 1, leaf))
    return (*node[:-1], put(level - 1, node[-1], inside, leaf))

def refused(vector, value):
    raise TypeError('no payload')
"
    );

    fn with_vectors(test: impl FnOnce(Python<'_>)) {
        Python::initialize();
        Python::attach(|py| {
            if layout().is_none() {
                let names = PyDict::new(py);
                py.run(PYTHON, Some(&names), None).unwrap();
                let get = |name: &str| names.get_item(name).unwrap().unwrap();
                let class = get("Vector").cast_into::<PyType>().unwrap();
                install_vector(
                    &class,
                    get("refused").unbind(),
                    get("pushed").unbind(),
                    get("refused").unbind(),
                )
                .unwrap();
            }
            test(py);
        });
    }

    fn numbers(py: Python<'_>, count: usize) -> Vec<Bound<'_, PyAny>> {
        (0..count).map(|number| number.into_pyobject(py).unwrap().into_any()).collect()
    }

    fn read(vector: &Bound<'_, PyAny>, start: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut take = |object: Object| {
            // SAFETY: the Vector that holds it is alive.
            found.push(unsafe { Bound::from_borrowed_ptr(vector.py(), object) }.extract().unwrap());
            Ok(())
        };
        // SAFETY: a Vector that is alive, and reading changes nothing.
        assert!(unsafe { values_from(vector.as_ptr(), start, &mut take) }.is_ok());
        found
    }

    /// Around the borders of a tail, of a leaf's and of a node's width.
    const SIZES: [usize; 10] = [0, 1, 31, 32, 33, 64, 1024, 1056, 1057, 2100];

    #[test]
    fn a_vector_holds_what_it_was_made_of_from_any_place() {
        with_vectors(|py| {
            for size in SIZES {
                let made = of_values(py, &numbers(py, size)).ok().unwrap();
                for start in [0, 1, size / 2, size.saturating_sub(1)] {
                    assert_eq!(read(&made, start), (start..size).collect::<Vec<_>>(), "{size} from {start}");
                }
            }
        });
    }

    #[test]
    fn appending_leaves_the_older_versions_as_they_were() {
        with_vectors(|py| {
            let mut versions = vec![of_values(py, &[]).ok().unwrap()];
            for number in 0..1100 {
                let newest = versions.last().unwrap().call_method1("append", (number,)).unwrap();
                versions.push(newest);
            }
            for size in [0, 1, 31, 32, 33, 1024, 1056, 1057, 1100] {
                assert_eq!(read(&versions[size], 0), (0..size).collect::<Vec<_>>());
            }
            // SAFETY: Vectors that are alive.
            unsafe {
                assert!(grew(versions[40].as_ptr(), versions[1099].as_ptr()).ok().unwrap());
                assert!(!grew(versions[1099].as_ptr(), versions[40].as_ptr()).ok().unwrap());
            }
        });
    }

    #[test]
    fn two_that_grow_from_one_do_not_see_each_other() {
        with_vectors(|py| {
            let base = of_values(py, &numbers(py, 5)).ok().unwrap();
            let one = base.call_method1("append", (100,)).unwrap();
            let other = base.call_method1("append", (200,)).unwrap();
            assert_eq!((read(&one, 5), read(&other, 5), read(&base, 5)), (vec![100], vec![200], vec![]));
        });
    }

    #[test]
    fn what_is_no_payload_is_refused_by_the_reference() {
        with_vectors(|py| {
            let base = of_values(py, &numbers(py, 1)).ok().unwrap();
            assert!(base
                .call_method1("append", (PyList::empty(py),))
                .unwrap_err()
                .is_instance_of::<PyTypeError>(py));
        });
    }
}
