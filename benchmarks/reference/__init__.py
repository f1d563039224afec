"""Published results, as data for comparison with ours; none of them is a target.

`fedlas_tables.json` contains tables 1 to 4 of "FedLAS: feature-modulated bidirectional label smoothing for neural
network calibration", arXiv:2606.28654, 2026 (FeDLaS in its tables), in per cent: ECE and adaptive ECE of 16 methods on
Tiny-ImageNet, CIFAR-10 and CIFAR-100 (table 1), accuracy, ECE and adaptive ECE of nine on FGVC-Aircraft and CUB-200
(table 2), OOD AUROC (table 3), O-ECE and U-ECE (table 4). Its authors copied the rows of table 1 without a dagger from
the ACLS paper (Park et al., ICCV 2023). The file contains only figures, which are facts: no text and no code. The
official code is under the MIT licence.

The backbones were trained from scratch or fine-tuned, those of table 2 with one seed and epochs chosen on test rows, so
these figures are no benchmark for heads on frozen features.
"""
