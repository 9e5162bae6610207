"""The gRPC service: p4.v1.P4Runtime on a thread pool."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import TypeVar

import grpc
from finsy.proto import p4r

from p4switch.dataplane import DataPlane
from p4switch.server import status
from p4switch.server.device import Device
from p4switch.server.options import ServerOptions
from p4switch.server.outbox import Outbox
from p4switch.server.pipeline import Pipeline
from p4switch.server.status import BatchError, RequestError
from p4switch.server.stream import serve_stream

LOG = logging.getLogger(__name__)

SERVICE = "p4.v1.P4Runtime"
API_VERSION = "1.4.1"  # the newest 1.4; the messages are those of 1.5, which only adds fields

T = TypeVar("T")


class PortInUse(OSError):
    """The address to listen on cannot be had."""


class P4RuntimeServer:
    """A P4Runtime server for one data plane. Use start() and stop(), or as a context manager."""

    def __init__(self, dataplane: DataPlane, options: ServerOptions, pipeline: Pipeline | None = None) -> None:
        self._options = options
        self._device = Device(dataplane, options, pipeline)
        self._outboxes: set[Outbox] = set()
        self._outboxes_lock = threading.Lock()
        self._server: grpc.Server | None = None
        self.port = 0

    def start(self) -> None:
        """Listen and serve; PortInUse when the address is taken. Afterwards .port is the port."""
        options = self._options
        server = grpc.server(
            # Every stream keeps a thread for as long as it lives, so they come on top of the workers.
            futures.ThreadPoolExecutor(options.workers + options.max_streams, thread_name_prefix="p4runtime"),
            handlers=[self._handlers()],
            options=[
                ("grpc.max_receive_message_length", options.max_message_bytes),
                ("grpc.max_send_message_length", options.max_message_bytes),
                ("grpc.so_reuseport", 0),  # two servers on one port would share the clients between them
            ],
        )
        try:
            self.port = server.add_insecure_port(options.grpc_addr)
        except RuntimeError as error:
            raise PortInUse(_address_trouble(options.grpc_addr)) from error
        if self.port == 0:
            raise PortInUse(_address_trouble(options.grpc_addr))
        server.start()
        self._server = server

    def stop(self, grace_s: float = 0.5) -> None:
        """End all streams, let running requests finish within `grace_s` seconds, and stop listening."""
        if self._server is not None:
            with self._outboxes_lock:
                for outbox in self._outboxes:
                    outbox.close(RequestError(status.UNAVAILABLE, "the switch is stopping"))
            self._server.stop(grace_s).wait()
            self._server = None
        self._device.close()

    def __enter__(self) -> P4RuntimeServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _handlers(self) -> grpc.GenericRpcHandler:
        unary = grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Write": unary(self._write, p4r.WriteRequest.FromString, p4r.WriteResponse.SerializeToString),
                "Read": grpc.unary_stream_rpc_method_handler(
                    self._read, p4r.ReadRequest.FromString, p4r.ReadResponse.SerializeToString
                ),
                "SetForwardingPipelineConfig": unary(
                    self._set_pipeline,
                    p4r.SetForwardingPipelineConfigRequest.FromString,
                    p4r.SetForwardingPipelineConfigResponse.SerializeToString,
                ),
                "GetForwardingPipelineConfig": unary(
                    self._get_pipeline,
                    p4r.GetForwardingPipelineConfigRequest.FromString,
                    p4r.GetForwardingPipelineConfigResponse.SerializeToString,
                ),
                "StreamChannel": grpc.stream_stream_rpc_method_handler(
                    self._stream, p4r.StreamMessageRequest.FromString, p4r.StreamMessageResponse.SerializeToString
                ),
                "Capabilities": unary(
                    self._capabilities,
                    p4r.CapabilitiesRequest.FromString,
                    p4r.CapabilitiesResponse.SerializeToString,
                ),
            },
        )

    def _write(self, request: p4r.WriteRequest, context: grpc.ServicerContext) -> p4r.WriteResponse:
        _guarded(context, lambda: self._device.write(request))
        return p4r.WriteResponse()

    def _read(self, request: p4r.ReadRequest, context: grpc.ServicerContext) -> Iterator[p4r.ReadResponse]:
        responses, error = _guarded(context, lambda: self._device.read(request))
        while (response := _guarded(context, lambda: next(responses, None))) is not None:
            yield response
        if error is not None:
            status.abort(context, error)

    def _set_pipeline(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.SetForwardingPipelineConfigResponse:
        _guarded(context, lambda: self._device.set_pipeline(request))
        return p4r.SetForwardingPipelineConfigResponse()

    def _get_pipeline(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.GetForwardingPipelineConfigResponse:
        return _guarded(context, lambda: self._device.get_pipeline(request))

    def _capabilities(
        self, request: p4r.CapabilitiesRequest, context: grpc.ServicerContext
    ) -> p4r.CapabilitiesResponse:
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def _stream(
        self, requests: Iterator[p4r.StreamMessageRequest], context: grpc.ServicerContext
    ) -> Iterator[p4r.StreamMessageResponse]:
        outbox = Outbox(self._options.stream_backlog)
        with self._outboxes_lock:
            full = len(self._outboxes) >= self._options.max_streams
            if not full:
                self._outboxes.add(outbox)
        if full:
            message = f"{self._options.max_streams} streams are open, which is the most that this server keeps"
            status.abort(context, RequestError(status.RESOURCE_EXHAUSTED, message))
        try:
            yield from serve_stream(self._device, requests, context, outbox)
        finally:
            with self._outboxes_lock:
                self._outboxes.discard(outbox)


def _guarded(context: grpc.ServicerContext, action: Callable[[], T]) -> T:
    """Run an action and end the RPC with the right status if it fails."""
    try:
        return action()
    except (RequestError, BatchError) as error:
        failure = error
    except Exception:
        LOG.exception("a request fails because of an error in the server")
        failure = RequestError(status.INTERNAL, "internal error; the server's log tells more")
    status.abort(context, failure)


def _address_trouble(address: str) -> str:
    return (
        f"cannot listen on {address}: the port is in use, or the address is not one of this machine; "
        "choose another with --grpc-addr HOST:PORT (port 0: any free one)"
    )
