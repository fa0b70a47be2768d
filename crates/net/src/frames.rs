//! The arrays that `recvmmsg` and `sendmmsg` work on: headers, each with a name and control data, and buffers.
#![expect(unsafe_code, reason = "the headers hold pointers to their slots, which a borrow cannot express")]

use core::mem::zeroed;
use core::ptr::NonNull;
use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::{self, Control, NAME_BYTES, Name};

/// What belongs to one header.
pub(crate) struct Slot {
    pub(crate) name: Name,
    pub(crate) control: Control,
}

/// A fixed number of headers, each pointing to its own slot, and as many buffers: each header's own to begin with.
///
/// Buffers start as null with no length. Who sets one answers for it in [`receive`](Self::receive) or
/// [`send`](Self::send).
pub(crate) struct Frames {
    slots: NonNull<[Slot]>,
    headers: NonNull<[libc::mmsghdr]>,
    buffers: NonNull<[libc::iovec]>,
}

// SAFETY: the frames own their allocations, and nothing reads the buffers but the unsafe calls below, whose callers
// vouch for them.
unsafe impl Send for Frames {}

impl Frames {
    /// Frames for `count` messages.
    pub(crate) fn new(count: usize) -> Self {
        let empty = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
        let slots = leak((0..count).map(|_| Slot { name: Name::empty(), control: Control::EMPTY }).collect());
        let buffers = leak(vec![empty; count]);
        let headers = (0..count).map(|index| {
            // SAFETY: all-zero bytes are a valid `mmsghdr`: null pointers with zero lengths.
            let mut header: libc::mmsghdr = unsafe { zeroed() };
            // SAFETY: `index` is below `count`, the number of slots.
            let slot = unsafe { slots.cast::<Slot>().add(index) }.as_ptr();
            // SAFETY: the slot is live; this only computes addresses within it.
            unsafe {
                header.msg_hdr.msg_name = (&raw mut (*slot).name).cast();
                header.msg_hdr.msg_control = (&raw mut (*slot).control).cast();
            }
            // SAFETY: `index` is below `count`, the number of buffers.
            header.msg_hdr.msg_iov = unsafe { buffers.cast::<libc::iovec>().add(index) }.as_ptr();
            header.msg_hdr.msg_iovlen = 1;
            header
        });
        Self { slots, headers: leak(headers.collect()), buffers }
    }

    /// How many headers there are, and how many buffers.
    pub(crate) fn len(&self) -> usize {
        self.headers.len()
    }

    /// Slot and header of message `index`.
    pub(crate) fn get(&self, index: usize) -> Option<(&Slot, &libc::mmsghdr)> {
        (index < self.len()).then(|| {
            // SAFETY: `index` is in bounds of both arrays, and `&self` excludes writers.
            unsafe { (self.slots.cast().add(index).as_ref(), self.headers.cast().add(index).as_ref()) }
        })
    }

    /// Slot and header of message `index`, to write.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<(&mut Slot, &mut libc::mmsghdr)> {
        (index < self.len()).then(|| {
            // SAFETY: `index` is in bounds of both arrays, and `&mut self` excludes other users.
            unsafe { (self.slots.cast().add(index).as_mut(), self.headers.cast().add(index).as_mut()) }
        })
    }

    /// Sets buffer `index` to the `length` bytes at `start`.
    pub(crate) fn set_buffer(&mut self, index: usize, start: *mut u8, length: usize) {
        if index < self.len() {
            // SAFETY: `index` is in bounds, and `&mut self` excludes other users.
            unsafe {
                self.buffers
                    .cast::<libc::iovec>()
                    .add(index)
                    .write(libc::iovec { iov_base: start.cast(), iov_len: length });
            }
        }
    }

    /// Lets the message of frame `index` consist of `count` buffers from `first` on.
    pub(crate) fn set_buffers(&mut self, index: usize, first: usize, count: usize) {
        let fits = first.checked_add(count).is_some_and(|end| end <= self.len());
        let buffers = self.buffers.cast::<libc::iovec>();
        if let Some((_, header)) = self.get_mut(index)
            && fits
        {
            // SAFETY: buffers `first` to `first + count` exist, as just checked.
            header.msg_hdr.msg_iov = unsafe { buffers.add(first) }.as_ptr();
            header.msg_hdr.msg_iovlen = count;
        }
    }

    /// Makes frame `index` ready to receive: the kernel overwrites the lengths.
    pub(crate) fn arm(&mut self, index: usize) {
        if let Some((_, header)) = self.get_mut(index) {
            header.msg_len = 0;
            header.msg_hdr.msg_flags = 0;
            header.msg_hdr.msg_namelen = NAME_BYTES;
            header.msg_hdr.msg_controllen = sys::CONTROL_BYTES;
        }
    }

    /// Receives into the frames from `first` on, at most `count`, without waiting; gives how many came.
    ///
    /// # Safety
    ///
    /// The buffers of these frames must be writable, and borrowed by nobody, during the call.
    pub(crate) unsafe fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        first: usize,
        count: usize,
    ) -> io::Result<usize> {
        let count = count.min(self.len().saturating_sub(first));
        // SAFETY: the range is in bounds; names and controls are the slots' own, held by `&mut self`; the caller
        // vouches for the buffers.
        unsafe {
            let header = self.headers.cast::<libc::mmsghdr>().add(first.min(self.len()));
            sys::receive_batch(socket, header.as_ptr(), count)
        }
    }

    /// Sends the frames from `first` on, at most `count`, without waiting; gives how many the kernel took, or why it
    /// did not take the first.
    ///
    /// # Safety
    ///
    /// The buffers of these frames must be readable during the call.
    pub(crate) unsafe fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        first: usize,
        count: usize,
    ) -> io::Result<usize> {
        let count = count.min(self.len().saturating_sub(first));
        // SAFETY: as in `receive`.
        unsafe {
            let header = self.headers.cast::<libc::mmsghdr>().add(first.min(self.len()));
            sys::send_batch(socket, header.as_ptr(), count)
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: the pointers came from `leak`, and nothing can use them after this.
        unsafe {
            drop(Box::from_raw(self.slots.as_ptr()));
            drop(Box::from_raw(self.headers.as_ptr()));
            drop(Box::from_raw(self.buffers.as_ptr()));
        }
    }
}

/// Gives up a vector's memory until a `Drop` takes it back.
pub(crate) fn leak<T>(vec: Vec<T>) -> NonNull<[T]> {
    NonNull::from(Box::leak(vec.into_boxed_slice()))
}
