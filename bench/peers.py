"""Times the kernels of a manifest beside cuBLAS, Triton and Gluon: one process, the same tensors.

python3 bench/peers.py --dir DIR --out FILE.json [--parts square,decode,llm,tails,fp8,epilogue,pallas,launch,latency]
                       [--seconds 450] [--burst] [--no-triton] [--dry-run]

How it measures
- Inputs are normal random numbers; results are compared with torch before anything is timed, from memory full of NaN.
- A contender rotates over so many sets of tensors that a pass moves more than three times the L2 cache.
- The pass is one CUDA graph per contender, so that gaps of the host do not count; times are those between two events.
- In each round the contenders run in a new random order: on a GPU at its power limit whatever follows a slow and cool
  contender looks faster, and a fixed order gives every one the same predecessor. The median over rounds counts.
- sustained (the default): each sample follows half as much of the same work. --burst: each follows a pause of 25 ms.
"""
import argparse
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from driver import Array, Driver, load_manifest  # noqa: E402

BEGIN = time.time()
GEMM = ["square", "decode", "llm", "tails"]
PARTS = GEMM + ["fp8", "epilogue", "launch", "latency", "pallas"]


class Results:
    def __init__(self, path, header):
        self.path, self.data = path, dict(header, rows=[])

    def add(self, **row):
        self.data["rows"].append(row)
        print(json.dumps(row), flush=True)
        with open(self.path, "w") as f:
            json.dump(self.data, f)

    def note(self, text):
        self.add(kind="note", text=str(text).replace("\n", " ")[:300])


def shuffled_medians(run, rounds, time_left):
    """{name: function -> microseconds} -> {name: median}, in a new order each round."""
    samples = {name: [] for name in run}
    for r in range(rounds):
        for name in random.sample(list(run), len(run)):
            samples[name].append(run[name]())
        if time_left() < 5 and r:
            break
    return {name: statistics.median(s) for name, s in samples.items() if s}


# ---- the GPU --------------------------------------------------------------------------------------------------------

class Gpu:
    """Tensors, graphs and events of torch, and the driver in torch's context."""

    def __init__(self, burst):
        import torch
        self.torch, self.burst = torch, burst
        torch.zeros(1, device="cuda")
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        p = torch.cuda.get_device_properties(0)
        self.sms, self.l2 = p.multi_processor_count, getattr(p, "L2_cache_size", 60 << 20)
        self.driver = Driver()
        self.types = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "f32": torch.float32}

    def header(self):
        name = self.torch.cuda.get_device_properties(0).name
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                                text=True).stdout.split("\n")[0].strip()
        versions = [f"torch {self.torch.__version__}"]
        try:
            import triton
            versions.append(f"Triton {triton.__version__}")
        except ImportError:
            pass
        return dict(device=name, driver=driver, versions=", ".join(versions), date=time.strftime("%Y-%m-%d"),
                    mode="burst" if self.burst else "sustained")

    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def sets(self, M, N, K, dtype, extra=(), most=96):
        """Rotating {"a", "b", "out", ...}; `extra`: (name, shape, dtype)."""
        t, kind = self.torch, self.types[dtype]
        size = 1 if dtype == "e4m3" else 2
        n = max(1, min(most, int(3 * self.l2 // ((M * K + N * K) * size + 2 * M * N)) + 1))
        out = []
        for _ in range(n):
            s = dict(a=t.randn(M, K, device="cuda").to(kind), b=t.randn(N, K, device="cuda").to(kind),
                     out=t.empty(M, N, device="cuda", dtype=t.bfloat16))
            for name, shape, extra_type in extra:
                s[name] = t.randn(*shape, device="cuda").to(self.types[extra_type])
            out.append(s)
        return out

    def array(self, x):
        return Array(x.data_ptr(), x.shape, x.element_size())

    def ours(self, plan, sets, order=("a", "b", "out")):
        function = self.driver.function(plan)
        return [self.driver.launcher(function, plan, [self.array(s[name]) for name in order], self.stream) for s in sets]

    def event_ms(self, f):
        a, b = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        b.synchronize()
        return a.elapsed_time(b)

    def quick(self, calls, least_ms=0.5):
        """Microseconds of a call, roughly: for choosing between configurations."""
        g = self.graph(calls)
        n = max(1, min(20, int(least_ms / max(self.event_ms(g.replay), 1e-3))))

        def several():
            for _ in range(n):
                g.replay()
        return min(self.event_ms(several) for _ in range(3)) * 1e3 / (n * len(calls))

    def graph(self, calls):
        t = self.torch
        side = t.cuda.Stream()
        side.wait_stream(t.cuda.current_stream())
        with t.cuda.stream(side):
            for f in calls[:2]:
                f()
        t.cuda.current_stream().wait_stream(side)
        t.cuda.synchronize()
        g = t.cuda.CUDAGraph()
        with t.cuda.graph(g):
            for f in calls:
                f()
        return g

    def sampler(self, calls, least_ms=2.0):
        """A function that takes one sample: microseconds a call."""
        g = self.graph(calls)
        turns = max(1, min(50, int(least_ms / max(self.event_ms(g.replay), 1e-3)) + 1))

        def several(n):
            for _ in range(n):
                g.replay()

        def sample():
            if self.burst:
                self.torch.cuda.synchronize()
                time.sleep(0.025)
                g.replay()
            else:
                several(turns // 2)
            return self.event_ms(lambda: several(turns)) * 1e3 / (turns * len(calls))
        return sample

    def measure(self, contenders, rounds, time_left):
        samplers, refused = {}, {}
        for name, calls in contenders.items():
            try:
                samplers[name] = self.sampler(calls)
            except Exception as e:
                refused[name] = f"{type(e).__name__}: {e}"
                self.torch.cuda.synchronize()
        return shuffled_medians(samplers, rounds, time_left), refused

    def error(self, got, want):
        got, want = got.float(), want.float()
        return ((got - want).norm() / want.norm()).item()


class Dry:
    """Stands in for the GPU in --dry-run: arrays with made-up addresses, times from the sizes. Nothing is executed."""
    sms, l2 = 132, 60 << 20
    bytes = {"bf16": 2, "e4m3": 1, "f32": 4}

    def header(self):
        return dict(device="dry run", driver="-", versions="-", date=time.strftime("%Y-%m-%d"), mode="dry run")

    def arrays(self, plan, order):
        e, at, out = plan.entry, 1 << 32, []
        shapes = dict(a=(e["M"], e["K"]), b=(e["N"], e["K"]), out=(e["M"], e["N"]), bias=(e["N"],), residual=(e["M"], e["N"]),
                      row_scale=(e["M"],), column_scale=(e["N"],))
        sizes = dict(a=self.bytes[e["dtype"]], b=self.bytes[e["dtype"]], row_scale=4, column_scale=4)
        for name in order:
            out.append(Array(at, shapes[name], sizes.get(name, 2)))
            at += 1 << 32
        return out

    def measure(self, contenders, rounds, time_left):
        return shuffled_medians({n: (lambda f=f: f(n)) for n, f in contenders.items()}, rounds, time_left), {}


# ---- matmul ---------------------------------------------------------------------------------------------------------

def peers_of(options, results):
    found = []
    if options.triton and not options.dry_run:
        for module in ("triton_peer", "gluon_peer"):
            try:
                found.append(importlib.import_module(module).Peer)
            except Exception as e:
                results.note(f"{module} cannot be measured: {type(e).__name__}: {e}")
    return found


def choose(gpu, plans, sets, want, results, limit, order=("a", "b", "out")):
    """[(microseconds, plan, calls)] of the kernels that are right, fastest first."""
    good = []
    for plan in plans:
        try:
            calls = gpu.ours(plan, sets, order)
            sets[0]["out"].fill_(float("nan"))
            calls[0]()
            gpu.torch.cuda.synchronize()
            error = gpu.error(sets[0]["out"], want)
            if not error < limit:
                results.note(f"WRONG: {plan}: relative error {error:.2e}")
                continue
            good.append((gpu.quick(calls), plan, calls))
        except Exception as e:
            results.note(f"{plan}: {type(e).__name__}: {e}")
    good.sort(key=lambda x: x[0])
    return good


def measure_matmul(gpu, dtype, plans, peers, options, results, time_left):
    M, N, K = (plans[0].entry[x] for x in "MNK")
    if options.dry_run:
        ours = [p for p in plans if not p.check(gpu.arrays(p, ("a", "b", "out")))]
        for p in plans:
            for bad in p.check(gpu.arrays(p, ("a", "b", "out"))):
                results.note(f"{p}: {bad}")
        times, _ = gpu.measure({"cublas": lambda n: M * N * K / 4e8, "ours": lambda n: M * N * K / 4e8}, 3, time_left)
        results.add(kind="matmul", dtype=dtype, M=M, N=N, K=K, group=plans[0].entry["group"], cublas=times["cublas"],
                    ours=times["ours"], config=ours[0].entry["config"], model=times["ours"],
                    model_config=plans[0].entry["config"])
        return
    t = gpu.torch
    sets = gpu.sets(M, N, K, dtype)
    s = sets[0]
    if dtype == "e4m3":
        one = t.ones((), device="cuda")

        def cublas(x):
            return lambda: t._scaled_mm(x["a"], x["b"].t(), one, one, out_dtype=t.bfloat16, use_fast_accum=True)
    else:
        def cublas(x):
            return lambda: t.mm(x["a"], x["b"].t(), out=x["out"])
    want = cublas(s)().clone()
    good = choose(gpu, plans, sets, want, results, 2e-2)
    contenders = {"cublas": [cublas(x) for x in sets]}
    named = {}
    # The three that looked fastest, and the model's own choice.
    for i, (_, plan, calls) in enumerate(good):
        if i < 3 or plan.entry["choice"]:
            name = f"ours{i}"
            contenders[name], named[name] = calls, plan
    for peer in peers:
        tried = []
        for config in peer.CONFIGS:
            if M <= 64 and config[0] > 64 or time_left() < 20:
                continue
            try:
                f = peer.launcher(config, s["a"], s["b"], s["out"], gpu.sms)
                s["out"].fill_(float("nan"))
                f()
                t.cuda.synchronize()
                if gpu.error(s["out"], want) < 2e-2:
                    calls = [peer.launcher(config, x["a"], x["b"], x["out"], gpu.sms) for x in sets]
                    tried.append((gpu.quick(calls), config, calls))
            except Exception as e:
                text = str(e).replace("\n", " ")
                if "out of resource" not in text:
                    results.note(f"{peer.name} {M}x{N}x{K} {config}: {type(e).__name__}: {text[:120]}")
        tried.sort(key=lambda x: x[0])
        for i, (_, config, calls) in enumerate(tried[:2]):
            contenders[f"{peer.name}{i}"], named[f"{peer.name}{i}"] = calls, peer.text(config)
    times, refused = gpu.measure(contenders, 5 if M * N * K > 4e11 else 7, time_left)
    for name, why in refused.items():
        results.note(f"{M}x{N}x{K} {name}: {why}")
    row = dict(kind="matmul", dtype=dtype, M=M, N=N, K=K, group=plans[0].entry["group"], cublas=times.get("cublas"))
    ours = sorted((us, n) for n, us in times.items() if n.startswith("ours"))
    if ours:
        row.update(ours=ours[0][0], config=named[ours[0][1]].entry["config"])
        for us, n in ours:
            if named[n].entry["choice"]:
                row.update(model=us, model_config=named[n].entry["config"])
    for peer in peers:
        theirs = sorted((us, n) for n, us in times.items() if n.startswith(peer.name))
        if theirs:
            row.update({peer.name: theirs[0][0], peer.name + "_config": named[theirs[0][1]]})
    results.add(**row)
    del contenders, sets, good
    t.cuda.empty_cache()


# ---- fused epilogues ------------------------------------------------------------------------------------------------

def measure_epilogue(gpu, plans, options, results, time_left):
    e = plans[0].entry
    name, dtype, M, N, K = e["name"], e["dtype"], e["M"], e["N"], e["K"]
    extra = {"bias_gelu": [("bias", (N,), "bf16")], "bias_relu": [("bias", (N,), "bf16")],
             "residual": [("residual", (M, N), "bf16")],
             "scales": [("row_scale", (M, 1), "f32"), ("column_scale", (1, N), "f32")]}[name]
    order = ["a", "b"] + [x[0] for x in extra] + ["out"]
    if options.dry_run:
        for p in plans:
            for bad in p.check(gpu.arrays(p, order)):
                results.note(f"{p}: {bad}")
        results.add(kind="epilogue", name=name, dtype=dtype, M=M, N=N, K=K, peer="dry run", peer_us=1.0, ours=1.0,
                    config=e["config"])
        return
    t = gpu.torch
    sets = gpu.sets(M, N, K, dtype, extra, most=24)
    if name in ("bias_gelu", "bias_relu"):
        peer = "torch._addmm_activation"

        def fused(x):
            return lambda: t._addmm_activation(x["bias"], x["a"], x["b"].t(), use_gelu=name == "bias_gelu")
    elif name == "residual":
        peer = "torch.addmm"

        def fused(x):
            return lambda: t.addmm(x["residual"], x["a"], x["b"].t(), out=x["out"])
    else:
        peer = "torch._scaled_mm, scales of rows and columns"

        for x in sets:
            for s in ("row_scale", "column_scale"):
                x[s] = x[s].abs()

        def fused(x):
            return lambda: t._scaled_mm(x["a"], x["b"].t(), x["row_scale"], x["column_scale"], out_dtype=t.bfloat16,
                                        use_fast_accum=True)
    want = fused(sets[0])().clone()
    flat = [dict(x, **{n: x[n].reshape(-1) for n in ("row_scale", "column_scale") if n in x}) for x in sets]
    good = choose(gpu, plans, flat, want, results, 2e-2, order)
    contenders = {"peer": [fused(x) for x in sets]}
    for i, (_, plan, calls) in enumerate(good[:3]):
        contenders[f"ours{i}"] = calls
    times, refused = gpu.measure(contenders, 7, time_left)
    for n, why in refused.items():
        results.note(f"{name} {M}x{N}x{K} {n}: {why}")
    ours = sorted((us, n) for n, us in times.items() if n != "peer")
    results.add(kind="epilogue", name=name, dtype=dtype, M=M, N=N, K=K, peer=peer, peer_us=times.get("peer"),
                ours=ours[0][0] if ours else None, config=good[int(ours[0][1][4:])][1].entry["config"] if ours else None)
    t.cuda.empty_cache()


# ---- launch cost and compile latency --------------------------------------------------------------------------------

LOOP = r"""
typedef int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
void loop(launch_kernel f, void *k, unsigned grid, unsigned block, unsigned smem, void *stream, void **args, int n)
{
	for (int i = 0; i < n; i++)
		f(k, grid, 1, 1, block, 1, 1, smem, stream, args, 0);
}
"""


def measure_launch(gpu, plan, options, results):
    if options.dry_run:
        results.add(kind="launch", what="dry run", us=1.0)
        return
    import ctypes as C
    t = gpu.torch

    def burst(what, f, per=200, turns=40):
        f()
        t.cuda.synchronize()
        times = []
        for _ in range(turns):
            begin = time.perf_counter()
            for _ in range(200 // per):
                f()
            times.append((time.perf_counter() - begin) * 1e6 / 200)
            t.cuda.synchronize()
        results.add(kind="launch", what=what, us=statistics.median(times))

    s = gpu.sets(plan.entry["M"], plan.entry["N"], plan.entry["K"], "bf16", most=1)[0]
    function = gpu.driver.function(plan)
    pointers, alive = gpu.driver.pack(plan, [gpu.array(s[n]) for n in ("a", "b", "out")])
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/loop.c", "w") as f:
            f.write(LOOP)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", d + "/loop.so", d + "/loop.c"], check=True)
        loop = C.CDLL(d + "/loop.so").loop
        entry = C.cast(gpu.driver.cu.cuLaunchKernel, C.c_void_p)
        burst("C loop of cuLaunchKernel, the same kernel, 3 tensor maps",
              lambda: loop(entry, function, plan.grid[0], plan.block[0], plan.smem, C.c_void_p(gpu.stream()), pointers, 200))
    burst("torch.mm(out=)", lambda: t.mm(s["a"], s["b"].t(), out=s["out"]), per=1)
    if options.triton:
        try:
            f = importlib.import_module("triton_peer").Peer.launcher((64, 64, 128, 2, 4, False), s["a"], s["b"], s["out"], gpu.sms)
            burst("Triton, 3 tensor descriptors", f, per=1)
        except Exception as e:
            results.note(f"launch of Triton: {type(e).__name__}: {e}")
    del alive


LATENCY = r"""
import sys, time
start = time.perf_counter()
import torch
sys.path.insert(0, {here!r})
from {tool}_peer import Peer
loaded = time.perf_counter() - start
a = torch.randn(1024, 1024, device="cuda").bfloat16()
b = torch.randn(1024, 1024, device="cuda").bfloat16()
out = torch.empty(1024, 1024, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
context = time.perf_counter() - start - loaded
configs = [(128, 128, 128, 4, 4, False), (128, 128, 128, 3, 4, False), (128, 256, 128, 3, 8, False)]
if {tool!r} == "gluon":
    configs = [c[:4] for c in configs]
times = []
for c in configs:
    begin = time.perf_counter()
    Peer.launcher(c, a, b, out, 132)()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
print("RESULT", loaded, context, *times)
"""


def measure_latency(options, results):
    here = os.path.dirname(os.path.abspath(__file__))
    for tool in ("triton", "gluon"):
        if options.dry_run:
            results.add(kind="latency", tool=tool, process=1.0, context=1.0, first=1.0, edit=1.0, edit2=1.0, hit=1.0)
            continue
        with tempfile.TemporaryDirectory() as cache:
            runs = []
            for _ in range(2):
                begin = time.perf_counter()
                p = subprocess.run([sys.executable, "-c", LATENCY.format(here=here, tool=tool)], capture_output=True, text=True,
                                   env=dict(os.environ, TRITON_CACHE_DIR=cache), timeout=120)
                total = time.perf_counter() - begin
                line = [x for x in p.stdout.splitlines() if x.startswith("RESULT")]
                if not line:
                    results.note(f"latency of {tool}: {p.stderr[-200:]}")
                    break
                runs.append([total] + [float(x) for x in line[0].split()[1:]])
            if len(runs) == 2:
                total, loaded, context, first, edit, edit2 = runs[0]
                results.add(kind="latency", tool=tool, process=total - edit - edit2, context=loaded + context, first=first,
                            edit=edit, edit2=edit2, hit=runs[1][3])


def measure_pallas(options, results, seconds):
    shapes = [(4096,) * 3, (8192,) * 3, (1024,) * 3, (2048,) * 3, (512,) * 3, (16, 4096, 4096), (64, 4096, 4096),
              (64, 14336, 4096), (128, 7168, 16384), (4096, 8192, 4096), (4096, 14336, 4096), (4096, 4096, 14336),
              (4096, 7168, 2048), (128, 24576, 1536), (16, 14336, 4096), (16, 8192, 8192), (64, 7168, 2048), (6144,) * 3]
    if options.dry_run:
        results.add(kind="pallas", M=512, N=512, K=512, us=1.0, xla_us=1.0, config="dry run")
        return
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pallas_peer.py")
    p = subprocess.Popen([sys.executable, script, json.dumps(shapes), str(seconds)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    try:
        out, err = p.communicate(timeout=seconds + 40)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
    rows = [json.loads(x[4:]) for x in out.splitlines() if x.startswith("ROW ")]
    for row in rows:
        results.add(**row)
    if not rows:
        results.note(f"Pallas cannot be measured: {err[-250:]}")


# ---- the program ----------------------------------------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description="times exported kernels beside other tools")
    parser.add_argument("--dir", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--burst", action="store_true")
    parser.add_argument("--no-triton", dest="triton", action="store_false")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    parts = options.parts.split(",")
    for part in parts:
        if part not in PARTS:
            parser.error(f"no part '{part}'; parts: {', '.join(PARTS)}")
    random.seed(1)

    def time_left():
        return options.seconds - (time.time() - BEGIN)

    plans, _ = load_manifest(options.dir)
    gpu = Dry() if options.dry_run else Gpu(options.burst)
    results = Results(options.out, gpu.header())

    def grouped(wanted):
        groups = {}
        for p in plans:
            if wanted(p.entry):
                groups.setdefault(tuple(p.entry[x] for x in ("name", "dtype", "M", "N", "K")), []).append(p)
        return sorted(groups.values(), key=lambda g: g[0].entry["M"] * g[0].entry["N"] * g[0].entry["K"])

    peers = peers_of(options, results)
    jobs = []
    for part in parts:
        if part in GEMM:
            jobs += [("bf16", g) for g in grouped(lambda e: e["group"] == part and e["dtype"] == "bf16")]
        elif part == "fp8":
            jobs += [("e4m3", g) for g in grouped(lambda e: e["group"] in GEMM and e["dtype"] == "e4m3")]
    for dtype, group in jobs:
        e = group[0].entry
        if time_left() < 15:
            results.note(f"no time left for {dtype} {e['M']}x{e['N']}x{e['K']}")
            continue
        try:
            measure_matmul(gpu, dtype, group, peers if dtype == "bf16" else [], options, results, time_left)
        except Exception as x:
            results.note(f"{dtype} {e['M']}x{e['N']}x{e['K']}: {type(x).__name__}: {x}")
    if "epilogue" in parts:
        for group in grouped(lambda e: e["group"] == "epilogue"):
            if time_left() > 10:
                try:
                    measure_epilogue(gpu, group, options, results, time_left)
                except Exception as x:
                    results.note(f"{group[0]}: {type(x).__name__}: {x}")
    if "launch" in parts:
        measure_launch(gpu, [p for p in plans if p.entry["group"] == "launch"][0], options, results)
    if "latency" in parts and time_left() > 30:
        measure_latency(options, results)
    if "pallas" in parts and time_left() > 40:
        measure_pallas(options, results, time_left() - 30)
    print(f"{len(results.data['rows'])} rows in {options.out}, {time.time() - BEGIN:.0f} s")


if __name__ == "__main__":
    main()
