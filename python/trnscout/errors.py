"""The exceptions trnscout raises. What PyTorch raises inside a kernel stays PyTorch's."""

from __future__ import annotations


class Error(Exception):
    """Base of every error of trnscout; raised itself where no subclass fits."""


class InvalidArgumentError(Error, ValueError):
    """A value or a file's content is not what it must be; the message names it and the limit."""


class OutOfRangeError(Error, IndexError):
    """An index is not below its bound."""


class NotFoundError(Error, FileNotFoundError):
    """A file, a directory or a model is not there."""


class ResourceExhaustedError(Error, MemoryError):
    """A budget would be passed; the message holds the table of who holds what."""


class UnimplementedError(Error, NotImplementedError):
    """The question is understood, but there is no answer to it yet."""
