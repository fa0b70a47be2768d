//! The buffers that `recvmmsg` fills, and the batch of datagrams read from them.
#![expect(
    unsafe_code,
    reason = "the kernel writes into these buffers through pointers that outlive a borrow"
)]

use core::net::IpAddr;
use core::ptr::NonNull;
use std::io;
use std::os::fd::BorrowedFd;

use tandem_sip::{Hop, ListenerId};

use crate::frames::{Frames, leak};
use crate::sys;

/// Buffers a power of two apart would all share the same few cache sets; 11 lines more spread them.
const COLOUR_BYTES: usize = 11 * 64;

/// Which socket filled a frame.
#[derive(Clone, Copy, Default)]
struct Origin {
    listener: ListenerId,
    wildcard: bool,
}

/// Room for one batch. Its pages are touched only as far as messages reach, so 64 KiB a buffer cost nothing.
pub(crate) struct Arena {
    bytes: NonNull<[u8]>,
    frames: Frames,
    origins: Box<[Origin]>,
    datagram_bytes_max: usize,
    stride: usize,
    filled: usize,
}

// SAFETY: the arena owns its allocation; only its own frames point into it.
unsafe impl Send for Arena {}

impl Arena {
    /// Room for `count` datagrams of up to `datagram_bytes_max` bytes.
    pub(crate) fn new(count: usize, datagram_bytes_max: usize) -> Self {
        let stride = datagram_bytes_max.next_multiple_of(64) + COLOUR_BYTES;
        let bytes = leak(vec![0; stride * count]);
        let mut frames = Frames::new(count);
        for index in 0..count {
            if let Some((slot, _)) = frames.get_mut(index) {
                // SAFETY: `index` is below `count`, so the offset lies within the allocation.
                let start = unsafe { bytes.cast::<u8>().add(index * stride) };
                slot.set_buffer(start.as_ptr(), datagram_bytes_max);
            }
            frames.arm(index);
        }
        Self {
            bytes,
            frames,
            origins: vec![Origin::default(); count].into(),
            datagram_bytes_max,
            stride,
            filled: 0,
        }
    }

    /// How many datagrams fit still.
    pub(crate) fn room(&self) -> usize {
        self.origins.len() - self.filled
    }

    /// How many datagrams were received since [`clear`](Self::clear).
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Forgets the batch, so that its buffers can be filled again.
    pub(crate) fn clear(&mut self) {
        for index in 0..self.filled {
            self.frames.arm(index);
        }
        self.filled = 0;
    }

    /// Receives up to `limit` datagrams from `socket` without waiting; gives how many came.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        listener: ListenerId,
        wildcard: bool,
        limit: usize,
    ) -> io::Result<usize> {
        let count = limit.min(self.room());
        // SAFETY: each frame has its own stretch of `bytes`, and `&mut self` excludes a `Batch` that reads them.
        let received = unsafe { self.frames.receive(socket, self.filled, count)? };
        for origin in self.origins.iter_mut().skip(self.filled).take(received) {
            *origin = Origin { listener, wildcard };
        }
        self.filled += received;
        Ok(received)
    }

    /// The datagrams received since [`clear`](Self::clear), from number `first` on.
    pub(crate) fn batch(&self, first: usize) -> Batch<'_> {
        Batch { arena: self, next: first }
    }

    /// Datagram number `index`, or `None` past the last one and for a peer of a family we do not know.
    fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let origin = self.origins.get(..self.filled)?.get(index)?;
        let (slot, header) = self.frames.get(index)?;
        let length = usize::try_from(header.msg_len).unwrap_or_default().min(self.datagram_bytes_max);
        // SAFETY: frame `index` has `datagram_bytes_max` initialised bytes there, and `&self` keeps the kernel out.
        let bytes = unsafe {
            let start = self.bytes.cast::<u8>().add(index * self.stride);
            core::slice::from_raw_parts(start.as_ptr(), length)
        };
        Some(Datagram {
            hop: Hop::udp(origin.listener, slot.name.address()?),
            bytes,
            overlong: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            control: slot.control.0.get(..header.msg_hdr.msg_controllen).unwrap_or_default(),
            wildcard: origin.wildcard,
        })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `leak`, and the frames that point into it are not used after this.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}

/// One received datagram.
#[derive(Clone, Copy)]
pub struct Datagram<'a> {
    /// Which listener it came to, and from whom.
    pub hop: Hop,
    /// What it holds; only its beginning if it is overlong.
    pub bytes: &'a [u8],
    /// It was longer than [`NetOptions::datagram_bytes_max`](crate::NetOptions::datagram_bytes_max).
    pub overlong: bool,
    control: &'a [u8],
    wildcard: bool,
}

impl Datagram<'_> {
    /// The address of ours it was sent to; known only where the socket is bound to a wildcard.
    #[must_use]
    pub fn local(&self) -> Option<IpAddr> {
        if self.wildcard {
            sys::control_messages(self.control).find_map(|message| sys::local_address(&message))
        } else {
            None
        }
    }

    /// How many datagrams the socket has lost to a full receive buffer so far, if the kernel says.
    pub(crate) fn overflows(&self) -> Option<u32> {
        sys::control_messages(self.control)
            .find(|message| (message.level, message.kind) == (libc::SOL_SOCKET, libc::SO_RXQ_OVFL))
            .and_then(|message| Some(u32::from_ne_bytes(message.data.get(..4)?.try_into().ok()?)))
    }
}

impl core::fmt::Debug for Datagram<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Datagram")
            .field("hop", &self.hop)
            .field("bytes", &self.bytes.len())
            .field("overlong", &self.overlong)
            .finish_non_exhaustive()
    }
}

/// The datagrams of one turn, per socket in the order of arrival.
pub struct Batch<'a> {
    arena: &'a Arena,
    next: usize,
}

impl<'a> Iterator for Batch<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        while self.next < self.arena.filled {
            let index = self.next;
            self.next += 1;
            if let Some(datagram) = self.arena.datagram(index) {
                return Some(datagram);
            }
        }
        None
    }
}

impl core::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Batch").field("left", &(self.arena.filled - self.next)).finish()
    }
}
