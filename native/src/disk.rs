//! Durable writes in a thread that never holds the interpreter: a helper thread of Python's would wait for it
//! twice, before the write and behind it, for as long as a pass lasts.

use std::io::Error;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;
use std::thread;

use pyo3::prelude::*;

struct Write {
    fd: i32,
    data: Vec<u8>,
}

/// Writes whole pieces to open files, in the order given, each followed by fdatasync. Mirrors
/// `machine/disk.py`, which says when.
#[pyclass(frozen, module = "flamestream._kernel")]
pub struct Disk {
    asked: Mutex<Sender<Write>>,
    done: Mutex<Receiver<i32>>,
    ready: i32,
}

#[pymethods]
impl Disk {
    #[new]
    fn new() -> PyResult<Self> {
        // SAFETY: a plain system call. The descriptor lives as long as the process, and so does the thread
        // that writes to it.
        let ready = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if ready < 0 {
            return Err(Error::last_os_error().into());
        }
        let (asked, work) = channel();
        let (tell, done) = channel();
        thread::Builder::new().name("disk".into()).spawn(move || serve(&work, &tell, ready))?;
        Ok(Disk { asked: Mutex::new(asked), done: Mutex::new(done), ready })
    }

    /// Becomes readable when there are answers.
    #[getter]
    fn fd(&self) -> i32 {
        self.ready
    }

    /// `fd` must stay open until the answer has come.
    fn write(&self, fd: i32, data: &[u8]) {
        let asked = self.asked.lock().expect("no holder panics");
        asked.send(Write { fd, data: data.to_vec() }).expect("the thread lives as long as this");
    }

    /// The outcome of every write that has ended, in their order: 0, or the errno of what went wrong.
    fn answers(&self) -> Vec<i32> {
        let mut count = 0u64;
        // SAFETY: eight bytes of our own. That it cannot be read means that nothing is new.
        unsafe { libc::read(self.ready, (&raw mut count).cast(), 8) };
        self.done.lock().expect("no holder panics").try_iter().collect()
    }
}

fn serve(work: &Receiver<Write>, tell: &Sender<i32>, ready: i32) {
    for Write { fd, data } in work {
        if tell.send(durable(fd, &data)).is_err() {
            break;
        }
        let one = 1u64;
        // SAFETY: eight bytes of our own. It fails only if 2^64 - 2 answers wait, and then it is readable
        // anyway.
        unsafe { libc::write(ready, (&raw const one).cast(), 8) };
    }
    // SAFETY: nobody else closes it, and the loop that watched it has let go of `Disk`.
    unsafe { libc::close(ready) };
}

fn durable(fd: i32, mut left: &[u8]) -> i32 {
    while !left.is_empty() {
        // SAFETY: the caller keeps `fd` open, and `left` is ours.
        let wrote = unsafe { libc::write(fd, left.as_ptr().cast(), left.len()) };
        if wrote < 0 {
            match errno() {
                libc::EINTR => continue,
                other => return other,
            }
        }
        left = &left[wrote as usize..];
    }
    // SAFETY: a plain system call.
    if unsafe { libc::fdatasync(fd) } < 0 {
        errno()
    } else {
        0
    }
}

fn errno() -> i32 {
    Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
