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

/// Longest that the kernel hands over at once: one datagram, or several it has put together (`UDP_GRO`).
const FRAME_BYTES: usize = 65_535;

/// Which socket filled a frame, and with what.
#[derive(Clone, Copy, Default)]
struct Origin {
    listener: ListenerId,
    wildcard: bool,
    /// Bytes of all its datagrams.
    length: usize,
    /// Bytes of each but the last, if there are several; else `length`.
    segment: usize,
}

/// Room for one batch. Its pages are touched only as far as messages reach, so 64 KiB a buffer cost nothing.
pub(crate) struct Arena {
    bytes: NonNull<[u8]>,
    frames: Frames,
    origins: Box<[Origin]>,
    datagram_bytes_max: usize,
    filled: usize,
    datagrams: usize,
}

/// Bytes from one frame's buffer to the next one's.
const STRIDE: usize = FRAME_BYTES.next_multiple_of(64) + COLOUR_BYTES;

// SAFETY: the arena owns its allocation; only its own frames point into it.
unsafe impl Send for Arena {}

impl Arena {
    /// Room for `count` datagrams, or trains of them, of which up to `datagram_bytes_max` bytes each are shown.
    pub(crate) fn new(count: usize, datagram_bytes_max: usize) -> Self {
        let bytes = leak(vec![0; STRIDE * count]);
        let mut frames = Frames::new(count);
        for index in 0..count {
            // SAFETY: `index` is below `count`, so the offset lies within the allocation.
            let start = unsafe { bytes.cast::<u8>().add(index * STRIDE) };
            frames.set_buffer(index, start.as_ptr(), FRAME_BYTES);
            frames.arm(index);
        }
        Self {
            bytes,
            frames,
            origins: vec![Origin::default(); count].into(),
            datagram_bytes_max,
            filled: 0,
            datagrams: 0,
        }
    }

    /// How many frames are free still.
    pub(crate) fn room(&self) -> usize {
        self.origins.len() - self.filled
    }

    /// How many frames were filled since [`clear`](Self::clear).
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// How many datagrams those hold.
    pub(crate) fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// Forgets the batch, so that its buffers can be filled again.
    pub(crate) fn clear(&mut self) {
        for index in 0..self.filled {
            self.frames.arm(index);
        }
        self.filled = 0;
        self.datagrams = 0;
    }

    /// Fills up to `limit` frames from `socket` without waiting; gives how many.
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
        for (place, origin) in self.origins.iter_mut().enumerate().skip(self.filled).take(received) {
            let Some((slot, header)) = self.frames.get(place) else { break };
            let length = usize::try_from(header.msg_len).unwrap_or_default().min(FRAME_BYTES);
            let control = slot.control.0.get(..header.msg_hdr.msg_controllen).unwrap_or_default();
            let segment = sys::control_messages(control)
                .find_map(|message| sys::segment_bytes(&message))
                .map_or(length, |segment| segment.min(length));
            *origin = Origin { listener, wildcard, length, segment };
            self.datagrams += origin.datagrams();
        }
        self.filled += received;
        Ok(received)
    }

    /// The datagrams in the frames from number `first` on.
    pub(crate) fn batch(&self, first: usize) -> Batch<'_> {
        Batch { arena: self, frame: first, at: 0 }
    }

    /// The datagram at byte `at` of a frame; `None` for a peer of a family we do not
    /// know.
    fn datagram(&self, frame: usize, origin: Origin, at: usize) -> Option<Datagram<'_>> {
        let (slot, header) = self.frames.get(frame)?;
        let length = origin.segment.min(origin.length.checked_sub(at)?);
        // SAFETY: frame `frame` has `FRAME_BYTES` initialised bytes there, of which `origin.length` at most are read,
        // and `&self` keeps the kernel out.
        let bytes = unsafe {
            let start = self.bytes.cast::<u8>().add(frame * STRIDE + at);
            core::slice::from_raw_parts(start.as_ptr(), length.min(self.datagram_bytes_max))
        };
        Some(Datagram {
            hop: Hop::udp(origin.listener, slot.name.address()?),
            bytes,
            overlong: length > self.datagram_bytes_max,
            control: slot.control.0.get(..header.msg_hdr.msg_controllen).unwrap_or_default(),
            wildcard: origin.wildcard,
        })
    }
}

impl Origin {
    /// How many datagrams a frame holds; an empty one is one too.
    const fn datagrams(&self) -> usize {
        if self.segment == 0 { 1 } else { self.length.div_ceil(self.segment) }
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
    frame: usize,
    /// Where in the frame the next datagram begins.
    at: usize,
}

impl<'a> Iterator for Batch<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        while let Some(&origin) = self.arena.origins.get(..self.arena.filled)?.get(self.frame) {
            let (frame, at) = (self.frame, self.at);
            self.at += origin.segment;
            if self.at >= origin.length {
                (self.frame, self.at) = (frame + 1, 0);
            }
            if let Some(datagram) = self.arena.datagram(frame, origin, at) {
                return Some(datagram);
            }
        }
        None
    }
}

impl core::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Batch").field("frames_left", &(self.arena.filled - self.frame)).finish()
    }
}
