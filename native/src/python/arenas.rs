//! Arenas: Python's small objects on huge pages.
//!
//! A document touches objects all over a heap of hundreds of megabytes, so with pages of 4 KiB most of its
//! accesses also miss the processor's table of pages. Python asks for arenas of 1 MiB; here they are halves
//! of chunks of 2 MiB that the operating system is asked to back with one page each. To clear such a page
//! takes as long as a tenth of a document, so a thread has one ready.
//!
//! Keeps: an arena that is not ours is freed by whoever made it; a chunk without arenas is given back. Where
//! there are no huge pages nothing is lost. Does not: touch what Python allocated before, or objects above
//! 512 bytes, which are malloc's.

use pyo3::prelude::*;
use std::collections::HashSet;
use std::ffi::CStr;
use std::os::raw::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::{mem, ptr};

const CHUNK: usize = 2 << 20;
const HALF: usize = CHUNK / 2;
/// Chunks that nobody uses yet; 0: none. The only thing that the two threads share, so that a fork finds no
/// lock taken.
static READY: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static PREPARER: OnceLock<Thread> = OnceLock::new();
const POPULATE_WRITE: i32 = 23;

/// CPython's own, as `Include/cpython/objimpl.h` has it since 3.4.
#[repr(C)]
struct PyObjectArenaAllocator {
    ctx: *mut c_void,
    alloc: Option<extern "C" fn(*mut c_void, usize) -> *mut c_void>,
    free: Option<extern "C" fn(*mut c_void, *mut c_void, usize)>,
}

type Exchange = unsafe extern "C" fn(*mut PyObjectArenaAllocator);

/// A function of CPython's that is not of its stable ones, so a Python of tomorrow may be without it.
fn exchange(name: &CStr) -> Option<Exchange> {
    // SAFETY: a plain look-up; both functions that are asked for have had this signature since there were
    // any.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (!found.is_null()).then(|| mem::transmute::<*mut c_void, Exchange>(found))
    }
}

struct Heap {
    /// Whoever made arenas before.
    before: PyObjectArenaAllocator,
    /// Chunks of ours, to tell their arenas from others.
    chunks: HashSet<usize>,
    /// Halves that are free, while the other one is in use.
    halves: Vec<usize>,
}

// SAFETY: the pointers in it are code and a context that Python passes around in the same way.
unsafe impl Send for Heap {}

/// Whoever has the interpreter has this.
static HEAP: Mutex<Option<Heap>> = Mutex::new(None);

fn heap() -> MutexGuard<'static, Option<Heap>> {
    HEAP.lock().expect("nothing panics while it holds this")
}

/// A chunk at a multiple of its size; None if there is no memory.
fn chunk() -> Option<usize> {
    // SAFETY: an anonymous mapping twice as big as needed, of which all but the aligned part is given back.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mapped = libc::mmap(ptr::null_mut(), 2 * CHUNK, access, kind, -1, 0);
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let (start, aligned) = (mapped as usize, (mapped as usize).next_multiple_of(CHUNK));
        if aligned > start {
            libc::munmap(mapped, aligned - start);
        }
        if start + CHUNK > aligned {
            libc::munmap((aligned + CHUNK) as *mut c_void, start + CHUNK - aligned);
        }
        libc::madvise(aligned as *mut c_void, CHUNK, libc::MADV_HUGEPAGE);
        Some(aligned)
    }
}

/// Have chunks ready, as long as there is memory.
fn prepare() {
    loop {
        for place in &READY {
            if place.load(Ordering::Acquire) == 0 {
                let Some(made) = chunk() else { return };
                // SAFETY: a mapping of ours. A system that does not know this answers with an error, and
                // clears the page at its first use.
                unsafe { libc::madvise(made as *mut c_void, CHUNK, POPULATE_WRITE) };
                place.store(made, Ordering::Release);
            }
        }
        thread::park();
    }
}

fn prepared() -> Option<usize> {
    let taken = READY.iter().map(|place| place.swap(0, Ordering::AcqRel)).find(|made| *made != 0);
    if let Some(preparer) = PREPARER.get() {
        preparer.unpark();
    }
    taken
}

extern "C" fn allocate(_: *mut c_void, size: usize) -> *mut c_void {
    let mut guard = heap();
    let heap = guard.as_mut().expect("installed");
    if size != HALF {
        return (heap.before.alloc.expect("Python has one"))(heap.before.ctx, size);
    }
    if let Some(half) = heap.halves.pop() {
        return half as *mut c_void;
    }
    let Some(made) = prepared().or_else(chunk) else { return ptr::null_mut() };
    heap.chunks.insert(made);
    heap.halves.push(made + HALF);
    made as *mut c_void
}

extern "C" fn free(_: *mut c_void, arena: *mut c_void, size: usize) {
    let mut guard = heap();
    let heap = guard.as_mut().expect("installed");
    let (half, of) = (arena as usize, arena as usize & !(CHUNK - 1));
    if size != HALF || !heap.chunks.contains(&of) {
        return (heap.before.free.expect("Python has one"))(heap.before.ctx, arena, size);
    }
    match heap.halves.iter().position(|other| *other == half ^ HALF) {
        Some(other) => {
            heap.halves.swap_remove(other);
            heap.chunks.remove(&of);
            // SAFETY: both halves of this chunk are free.
            unsafe { libc::munmap(of as *mut c_void, CHUNK) };
        }
        None => heap.halves.push(half),
    }
}

/// Arenas from now on are on huge pages, if the operating system has any. A fork goes on without the thread.
#[pyfunction]
pub fn huge_arenas(_py: Python<'_>) {
    let functions = (exchange(c"PyObject_GetArenaAllocator"), exchange(c"PyObject_SetArenaAllocator"));
    let (Some(get_allocator), Some(set_allocator)) = functions else { return };
    let mut guard = heap();
    if guard.is_some() {
        return;
    }
    let mut before = PyObjectArenaAllocator { ctx: ptr::null_mut(), alloc: None, free: None };
    let mut ours = PyObjectArenaAllocator { ctx: ptr::null_mut(), alloc: Some(allocate), free: Some(free) };
    // SAFETY: the interpreter is held, so no arena is made or freed meanwhile.
    unsafe { get_allocator(&mut before) };
    *guard = Some(Heap { before, chunks: HashSet::new(), halves: Vec::new() });
    // SAFETY: as above, and the heap is there.
    unsafe { set_allocator(&mut ours) };
    drop(guard);
    PREPARER.get_or_init(|| thread::spawn(prepare).thread().clone());
}
