"""Loads kernels that `bench/gpu.lua export` wrote and launches them through the CUDA driver, in the context of the process.

`Plan` is the part that needs no GPU: it reads a manifest entry and computes what the driver will be asked for."""
import ctypes as C
import json
import os

CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}
L2_128B = 2


class LaunchAttribute(C.Structure):
    _fields_ = [("id", C.c_int), ("pad", C.c_char * 4), ("value", C.c_uint * 16)]


class LaunchConfig(C.Structure):
    _fields_ = [("grid", C.c_uint * 3), ("block", C.c_uint * 3), ("smem", C.c_uint), ("stream", C.c_void_p),
                ("attributes", C.POINTER(LaunchAttribute)), ("count", C.c_uint)]


class Array:
    """Where an argument lies: address, shape in elements, bytes of an element; rows are dense."""

    def __init__(self, address, shape, element_bytes):
        self.address, self.shape, self.element_bytes = address, tuple(shape), element_bytes

    def stride(self, axis):
        n = self.element_bytes
        for size in self.shape[axis + 1:]:
            n *= size
        return n


class Plan:
    """A kernel of the manifest: geometry, and the maps and pointers for given arrays."""

    def __init__(self, folder, entry):
        self.entry, self.kernel = entry, entry["kernel"]
        self.path = os.path.join(folder, entry["cubin"])
        cluster = self.kernel["cluster"]
        grid = list(reversed(self.kernel["grid"])) + [1, 1]
        self.cluster = cluster
        self.grid = [grid[i] * cluster[i] for i in range(3)]
        self.block, self.smem = self.kernel["block"], self.kernel["dynamic_smem"]

    def __str__(self):
        e = self.entry
        return f"{e['name']} {e['dtype']} {e['M']}x{e['N']}x{e['K']} {e['config']}"

    def cubin(self):
        with open(self.path, "rb") as f:
            return f.read()

    def arguments(self, arrays):
        """[("tensormap", {...}) | ("pointer", address)] in the order of the parameters."""
        out = []
        for p in self.kernel["params"]:
            a = arrays[p["argument"]] if "argument" in p else None
            if p["kind"] == "pointer":
                out.append(("pointer", a.address))
            elif p["kind"] == "tensormap":
                dims, strides = [], []
                for i, axis in enumerate(p["axis"]):
                    size = 1
                    for c in range(p["collapsed"][i] + 1):
                        size *= a.shape[axis - c]
                    dims.append(size)
                    if i:
                        strides.append(a.stride(axis))
                out.append(("tensormap", dict(type=p["type"], address=a.address, dims=dims, strides=strides, box=p["box"],
                                              swizzle=SWIZZLE[p["swizzle_bytes"]])))
            else:
                raise ValueError(f"{self}: parameter kind {p['kind']} is not expected here")
        return out

    def check(self, arrays):
        """What the driver would refuse, as a list of words; used without a GPU."""
        bad = []
        if self.cubin()[:4] != b"\x7fELF":
            bad.append("the cubin is no ELF file")
        if self.smem > 232448:
            bad.append(f"{self.smem} bytes of shared memory")
        for kind, m in self.arguments(arrays):
            if kind == "pointer":
                continue
            size = arrays[0].element_bytes if m["type"] == 0 else {6: 2, 9: 2, 7: 4}.get(m["type"], 1)
            inner = m["box"][0] * size
            if any(b < 1 or b > 256 for b in m["box"]) or inner % 16:
                bad.append(f"box {m['box']}")
            if m["swizzle"] and inner > {1: 32, 2: 64, 3: 128}[m["swizzle"]]:
                bad.append(f"box of {inner} bytes is wider than its swizzle")
            if any(s % 16 for s in m["strides"]) or m["address"] % 16:
                bad.append(f"strides {m['strides']}")
        return bad


def load_manifest(folder):
    with open(os.path.join(folder, "manifest.json")) as f:
        manifest = json.load(f)
    return [Plan(folder, e) for e in manifest["kernels"]], manifest["target"]


class Driver:
    """libcuda, used in the context that is current in this thread."""

    def __init__(self):
        self.cu = C.CDLL("libcuda.so.1")
        self.keep = []

    def call(self, name, *arguments):
        r = getattr(self.cu, name)(*arguments)
        if r:
            text = C.c_char_p()
            self.cu.cuGetErrorString(r, C.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def function(self, plan):
        image = plan.cubin()
        module, function = C.c_void_p(), C.c_void_p()
        self.call("cuModuleLoadData", C.byref(module), C.c_char_p(image))
        self.call("cuModuleGetFunction", C.byref(function), module, plan.kernel["entry"].encode())
        if plan.smem > 48 * 1024:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, plan.smem)
        self.keep.append(module)
        return function

    def tensormap(self, m):
        raw = C.create_string_buffer(128 + 64)
        at = (C.addressof(raw) + 63) & ~63
        n = len(m["dims"])
        self.call("cuTensorMapEncodeTiled", C.c_void_p(at), m["type"], n, C.c_void_p(m["address"]),
                  (C.c_uint64 * n)(*m["dims"]), (C.c_uint64 * max(1, n - 1))(*m["strides"]), (C.c_uint32 * n)(*m["box"]),
                  (C.c_uint32 * n)(*[1] * n), 0, m["swizzle"], L2_128B, 0)
        return raw, at

    def pack(self, plan, arrays):
        """The void *[] for a launch, and what it points into."""
        alive, pointers = [], []
        for kind, value in plan.arguments(arrays):
            if kind == "pointer":
                x = C.c_uint64(value)
                alive.append(x)
                pointers.append(C.addressof(x))
            else:
                raw, at = self.tensormap(value)
                alive.append(raw)
                pointers.append(at)
        return (C.c_void_p * len(pointers))(*pointers), alive

    def launcher(self, function, plan, arrays, stream):
        """A call without arguments that launches on stream(), a number."""
        pointers, alive = self.pack(plan, arrays)
        cluster = plan.cluster[0] * plan.cluster[1] * plan.cluster[2]
        attribute = LaunchAttribute(CLUSTER_DIMENSION, b"", (C.c_uint * 16)(*plan.cluster))
        config = LaunchConfig((C.c_uint * 3)(*plan.grid), (C.c_uint * 3)(*plan.block), plan.smem, None,
                              C.pointer(attribute), 1 if cluster > 1 else 0)
        launch, reference = self.cu.cuLaunchKernelEx, C.byref(config)

        def f():
            config.stream = stream()
            r = launch(reference, function, pointers, None)
            if r:
                self.call("cuLaunchKernelEx", reference, function, pointers, None)

        f.alive = (alive, pointers, attribute, config)
        return f
