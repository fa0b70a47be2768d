//! Transactions: RFC 3261 §17 with RFC 6026.
