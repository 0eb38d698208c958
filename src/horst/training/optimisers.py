"""AdaBelief over all parameters at once. `pytorch_optimizer` updates them one by one if `rectify` is set."""

import math
from typing import Any

import torch

from horst.extras import require

published = require("pytorch_optimizer", "train")


class AdaBelief(published.AdaBelief):  # type: ignore[name-defined]
    """The AdaBelief of `pytorch_optimizer`, with its options and its result to the last bit.

    A network has about a hundred parameters, and each one takes ten operations: as operations over lists they are ten
    launches on a GPU instead of a thousand.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        if self.maximize or any(group["ams_bound"] or group.get("adanorm") for group in self.param_groups):
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self.init_group(group)
            group["step"] += 1
            self._update(group)
        return loss

    def _update(self, group: dict[str, Any]) -> None:
        trained = [p for p in group["params"] if p.grad is not None]
        if not trained:
            return
        grads = [p.grad for p in trained]
        means, variances = ([self.state[p][name] for p in trained] for name in ("exp_avg", "exp_avg_var"))
        (beta1, beta2), count, lr, eps = group["betas"], group["step"], group["lr"], group["eps"]
        size, length = self.get_rectify_step_size(
            is_rectify=group["rectify"], step=count, lr=lr, beta2=beta2, n_sma_threshold=self.n_sma_threshold,
            degenerated_to_sgd=self.degenerated_to_sgd,
        )  # fmt: skip
        size = self.apply_adam_debias(
            adam_debias=group.get("adam_debias", False), step_size=size, bias_correction1=self.debias(beta1, count)
        )
        if decay := group["weight_decay"]:
            if group["weight_decouple"]:
                torch._foreach_mul_(trained, 1.0 - decay * (1.0 if group["fixed_decay"] else lr))
            else:
                torch._foreach_add_(grads, trained, alpha=decay)
        torch._foreach_lerp_(means, grads, 1.0 - beta1)
        surprise = torch._foreach_sub(grads, means)
        torch._foreach_mul_(variances, beta2)
        torch._foreach_addcmul_(variances, surprise, surprise, value=1.0 - beta2)
        torch._foreach_add_(variances, eps)
        if group["rectify"] and length < self.n_sma_threshold:  # too few steps for a variance
            if size > 0:
                torch._foreach_add_(trained, means, alpha=-size)
            return
        roots = torch._foreach_sqrt(variances)
        if not group["rectify"]:
            torch._foreach_div_(roots, math.sqrt(self.debias(beta2, count)))
        torch._foreach_add_(roots, eps)
        torch._foreach_addcdiv_(trained, means, roots, value=-size)
